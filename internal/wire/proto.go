package wire

// Of the gRPC binding, the package reads protobuf messages without their
// frames, by the rules for JSON: requests strictly and once, so that what is
// to change can be spliced; answers tolerantly. There are no generated types:
// decoding into them and encoding again would reorder fields and make lengths
// and map entries anew. What a record keeps of parts, artifacts and metadata
// is written as the JSON that A2A has for it, so that it is read in one way.
//
//	request ──ReadProto──────────▶ Request ──Edited──────▶ request'
//	answer  ──ReadProtoResponse──▶ Update  ──ReadParts──▶ what a record keeps
//	answer  ──RewriteProtoPush, RewriteProtoCard────────▶ answer'

// GRPCMethod is what a gRPC method says.
type GRPCMethod struct {
	// Name is the full method, as the :path of HTTP/2 spells it.
	Name    string
	Version Version
	Op      Op
}

// protoMethod is a method and how its request is read.
type protoMethod struct {
	GRPCMethod
	request *protoShape
}

// The services of both versions. That of 0.3 is called v1, too.
const (
	serviceV03 = "/a2a.v1.A2AService/"
	serviceV10 = "/lf.a2a.v1.A2AService/"
)

// protoMethods maps every full method to what it says.
var protoMethods = func() map[string]*protoMethod {
	known := make(map[string]*protoMethod)
	add := func(name string, v Version, op Op, request *protoShape) {
		service := serviceV10
		if v == V03 {
			service = serviceV03
		}
		known[service+name] = &protoMethod{GRPCMethod{service + name, v, op}, request}
	}
	add("SendMessage", V03, OpSend, &sendShapeV03)
	add("SendStreamingMessage", V03, OpStream, &sendShapeV03)
	add("GetTask", V03, OpGet, &nameShapeV03)
	add("ListTasks", V03, OpList, &listShapeV03) // not in the specification, but agents answer it
	add("CancelTask", V03, OpCancel, &nameShapeV03)
	add("TaskSubscription", V03, OpSubscribe, &nameShapeV03)
	add("CreateTaskPushNotificationConfig", V03, OpPushSet, &pushSetShapeV03)
	add("GetTaskPushNotificationConfig", V03, OpPushGet, &nameShapeV03)
	add("ListTaskPushNotificationConfig", V03, OpPushList, &parentShapeV03)
	add("DeleteTaskPushNotificationConfig", V03, OpPushDelete, &nameShapeV03)
	add("GetAgentCard", V03, OpCard, &cardShape)

	add("SendMessage", V10, OpSend, &sendShapeV10)
	add("SendStreamingMessage", V10, OpStream, &sendShapeV10)
	add("GetTask", V10, OpGet, &taskShapeV10)
	add("ListTasks", V10, OpList, &listShapeV10)
	add("CancelTask", V10, OpCancel, &taskShapeV10)
	add("SubscribeToTask", V10, OpSubscribe, &taskShapeV10)
	add("CreateTaskPushNotificationConfig", V10, OpPushSet, &pushSetShapeV10)
	add("GetTaskPushNotificationConfig", V10, OpPushGet, &pushNameShapeV10)
	add("ListTaskPushNotificationConfigs", V10, OpPushList, &pushListShapeV10)
	add("DeleteTaskPushNotificationConfig", V10, OpPushDelete, &pushNameShapeV10)
	add("GetExtendedAgentCard", V10, OpCard, &cardShape)
	return known
}()

// MatchGRPC reports which method of A2A a path is, if it is one.
func MatchGRPC(path string) (GRPCMethod, bool) {
	if m := protoMethods[path]; m != nil {
		return m.GRPCMethod, true
	}
	return GRPCMethod{}, false
}
