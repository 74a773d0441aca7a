package sqlite

import "hash/maphash"

// idSet tells of most ids that a tree has nothing under them, so that the file
// need not be asked about what is new (a Bloom filter). Its zero value is that
// of a new tree; one that was read from the file may have anything.
type idSet struct {
	bits     [1024 / 64]uint64
	anything bool
}

var idSeed = maphash.MakeSeed()

// marks are the places of the bits that stand for an id.
func (*idSet) marks(kind, agent, id string) [4]uint16 {
	h := maphash.String(idSeed, id) ^ maphash.String(idSeed, agent)*31 ^ uint64(kind[0])*0x9e3779b97f4a7c15
	return [4]uint16{uint16(h) % 1024, uint16(h>>16) % 1024, uint16(h>>32) % 1024, uint16(h>>48) % 1024}
}

func (s *idSet) add(kind, agent, id string) {
	if s.anything {
		return
	}
	for _, at := range s.marks(kind, agent, id) {
		s.bits[at/64] |= 1 << (at % 64)
	}
}

// mayHave is false if the tree has nothing under the id.
func (s *idSet) mayHave(kind, agent, id string) bool {
	if s.anything {
		return true
	}
	for _, at := range s.marks(kind, agent, id) {
		if s.bits[at/64]&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}
