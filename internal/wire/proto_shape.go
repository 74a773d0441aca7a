package wire

import "google.golang.org/protobuf/encoding/protowire"

// protoSlot is a field of a request message that the sidecar reads, named by
// what it says, in whichever version and operation.
type protoSlot uint8

const (
	slotMessage   protoSlot = iota
	slotMessageID           // of the message
	slotContext             // of the message, or the one to list
	slotTask                // of the message, or the one that is called on
	slotMetadata            // of the message
	slotName                // 0.3: the resource name that the task is in

	slotOuter    // what the push configuration is in
	slotConfigID // 0.3: beside it
	slotConfigName
	slotPush
	slotPushID
	slotPushURL
	slotPushToken
	slotPushAuth

	slotCount
)

// protoKind is how the payload of a field is read. All those that are read in
// requests are length-delimited.
type protoKind uint8

const (
	textField protoKind = iota
	messageField
)

// protoShape is a message whose fields are read.
type protoShape struct {
	place string // as errors name it; "" for the outermost
	keys  []protoKey
}

// protoKey is a field of a shape, none of which is repeated.
type protoKey struct {
	num  protowire.Number
	name string // with its place, as errors name it
	slot protoSlot
	kind protoKind
	of   *protoShape // how a message is read on; nil: not at all
}

// find returns the key with that number, or nil.
func (s *protoShape) find(num protowire.Number) *protoKey {
	for i := range s.keys {
		if s.keys[i].num == num {
			return &s.keys[i]
		}
	}
	return nil
}

// messageShapeProto is a message of either version. 0.3 has it in a field
// called request, which its JSON calls message.
var messageShapeProto = protoShape{place: "message", keys: []protoKey{
	{num: 1, name: "message.message_id", slot: slotMessageID},
	{num: messageContext, name: "message.context_id", slot: slotContext},
	{num: 3, name: "message.task_id", slot: slotTask},
	{num: 6, name: "message.metadata", slot: slotMetadata, kind: messageField},
}}

// The numbers of the fields that a splice adds or a second look needs.
const (
	messageContext protowire.Number = 2
	messageParts   protowire.Number = 5
	listContextV03 protowire.Number = 1
	listContextV10 protowire.Number = 2
)

// The requests of 0.3.
var (
	sendShapeV03 = protoShape{keys: []protoKey{
		{num: 1, name: "message", slot: slotMessage, kind: messageField, of: &messageShapeProto},
		{num: 2, name: "configuration", slot: slotOuter, kind: messageField, of: &protoShape{
			place: "configuration",
			keys: []protoKey{
				{num: 2, name: "configuration.push_notification", slot: slotPush, kind: messageField, of: &pushShapeV03},
			},
		}},
	}}
	// pushShapeV03 is the configuration itself.
	pushShapeV03 = protoShape{place: "push_notification_config", keys: []protoKey{
		{num: 1, name: "push_notification_config.id", slot: slotPushID},
		{num: 2, name: "push_notification_config.url", slot: slotPushURL},
		{num: 3, name: "push_notification_config.token", slot: slotPushToken},
		{num: 4, name: "push_notification_config.authentication", slot: slotPushAuth, kind: messageField},
	}}
	pushSetShapeV03 = protoShape{keys: []protoKey{
		{num: 1, name: "parent", slot: slotName},
		{num: 2, name: "config_id", slot: slotConfigID},
		{num: 3, name: "config", slot: slotOuter, kind: messageField, of: &protoShape{
			place: "config",
			keys: []protoKey{
				{num: 1, name: "config.name", slot: slotConfigName},
				{num: 2, name: "config.push_notification_config", slot: slotPush, kind: messageField, of: &pushShapeV03},
			},
		}},
	}}
	nameShapeV03   = protoShape{keys: []protoKey{{num: 1, name: "name", slot: slotName}}}
	parentShapeV03 = protoShape{keys: []protoKey{{num: 1, name: "parent", slot: slotName}}}
	listShapeV03   = protoShape{keys: []protoKey{{num: listContextV03, name: "context_id", slot: slotContext}}}
)

// The requests of 1.0.
var (
	sendShapeV10 = protoShape{keys: []protoKey{
		{num: 2, name: "message", slot: slotMessage, kind: messageField, of: &messageShapeProto},
		{num: 3, name: "configuration", slot: slotOuter, kind: messageField, of: &protoShape{
			place: "configuration",
			keys: []protoKey{{
				num: 2, name: "configuration.task_push_notification_config", slot: slotPush, kind: messageField,
				// Its task_id is left out: it is for the task to come.
				of: &protoShape{place: "task_push_notification_config", keys: pushKeysV10},
			}},
		}},
	}}
	pushKeysV10 = []protoKey{
		{num: 2, name: "id", slot: slotPushID},
		{num: 4, name: "url", slot: slotPushURL},
		{num: 5, name: "token", slot: slotPushToken},
		{num: 6, name: "authentication", slot: slotPushAuth, kind: messageField},
	}
	// pushSetShapeV10 is a configuration: the request is nothing but it.
	pushSetShapeV10  = protoShape{keys: append([]protoKey{{num: 3, name: "task_id", slot: slotTask}}, pushKeysV10...)}
	taskShapeV10     = protoShape{keys: []protoKey{{num: 2, name: "id", slot: slotTask}}}
	pushNameShapeV10 = protoShape{keys: []protoKey{{num: 2, name: "task_id", slot: slotTask}}}
	pushListShapeV10 = protoShape{keys: []protoKey{{num: 1, name: "task_id", slot: slotTask}}}
	listShapeV10     = protoShape{keys: []protoKey{{num: listContextV10, name: "context_id", slot: slotContext}}}
)

// cardShape is a request in which nothing is read.
var cardShape protoShape
