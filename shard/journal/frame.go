package journal

import (
	"encoding/binary"
	"hash/crc32"
)

const header = "tonnage journal 1\n"

// The limits of a frame.
const (
	// KeyBytesMax and ValueBytesMax bound what is remembered under one key.
	KeyBytesMax   = 4 << 10
	ValueBytesMax = 64 << 10
	frameBytes    = 8 // before the payload
)

var sums = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends the setting of one key.
func appendFrame(b []byte, key string, value []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, frameBytes)...)
	b = binary.AppendUvarint(b, uint64(len(key)))
	b = append(b, key...)
	b = append(b, value...)
	payload := b[at+frameBytes:]
	binary.LittleEndian.PutUint32(b[at:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[at+4:], crc32.Checksum(payload, sums))
	return b
}

// nextFrame reads the first frame of b, whose parts belong to b; whole is false
// when it was not written to its end, or is damaged.
func nextFrame(b []byte) (key, value []byte, size int, whole bool) {
	if len(b) < frameBytes {
		return nil, nil, 0, false
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n > binary.MaxVarintLen32+KeyBytesMax+ValueBytesMax || n > len(b)-frameBytes {
		return nil, nil, 0, false
	}
	payload := b[frameBytes : frameBytes+n]
	if crc32.Checksum(payload, sums) != binary.LittleEndian.Uint32(b[4:]) {
		return nil, nil, 0, false
	}
	k, used := binary.Uvarint(payload)
	if used <= 0 || k > uint64(len(payload)-used) {
		return nil, nil, 0, false
	}
	rest := payload[used:]
	return rest[:k], rest[k:], frameBytes + n, true
}
