package inbound

import "encoding/binary"

// What RFC 9113 says of the bytes of a connection.
const (
	prefaceBytes      = 24
	frameHeaderBytes  = 9
	frameData         = 0x0
	frameHeaders      = 0x1
	frameContinuation = 0x9
	flagEndHeaders    = 0x4
	flagPadded        = 0x8
	streamIDMask      = 1<<31 - 1
)

// piece is a run of bytes of a connection that mean the same thing.
type piece struct {
	bytes int
	// data is the stream whose DATA the bytes are, without padding; 0 = they
	// are something else.
	data uint32
	// first is that they are the first data of their frame.
	first bool
	// opens is the stream whose header block ends with this piece; 0 = none.
	opens uint32
}

// frames follows the HTTP/2 frames that a client sends. It reads nothing but
// frame headers and lengths of padding, and judges nothing: bytes that are not
// HTTP/2 are refused by gRPC, which reads the same bytes afterwards. The zero
// value is not usable; see newFrames.
type frames struct {
	preface int // bytes of the preface that are still to come
	header  [frameHeaderBytes]byte
	have    int  // bytes of header that are there
	left    int  // bytes of the payload that are still to come
	padding int  // bytes at the payload's end; -1 = its length is the next byte
	begun   bool // data of the frame were seen
}

func newFrames() frames { return frames{preface: prefaceBytes} }

func (f *frames) stream() uint32 { return binary.BigEndian.Uint32(f.header[5:]) & streamIDMask }

// between tells whether the next byte begins a frame.
func (f *frames) between() bool { return f.preface == 0 && f.have == 0 }

// next returns what the first bytes of p are, at least one byte; p is not
// empty.
func (f *frames) next(p []byte) piece {
	switch {
	case f.preface > 0:
		n := min(f.preface, len(p))
		f.preface -= n
		return piece{bytes: n}
	case f.have < frameHeaderBytes:
		n := copy(f.header[f.have:], p)
		f.have += n
		if f.have == frameHeaderBytes {
			f.left = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
			f.padding, f.begun = 0, false
			if f.header[3] == frameData && f.header[4]&flagPadded != 0 && f.left > 0 {
				f.padding = -1
			}
			return piece{bytes: n, opens: f.ended()}
		}
		return piece{bytes: n}
	case f.padding < 0:
		f.left--
		f.padding = min(int(p[0]), f.left)
		f.ended()
		return piece{bytes: 1}
	case f.header[3] == frameData && f.left > f.padding:
		x := piece{bytes: min(f.left-f.padding, len(p)), data: f.stream(), first: !f.begun}
		f.begun = true
		f.left -= x.bytes
		f.ended()
		return x
	}
	n := min(f.left, len(p))
	f.left -= n
	return piece{bytes: n, opens: f.ended()}
}

// ended begins a new frame when the last one is complete, and returns the
// stream whose header block it ended; 0 = none.
func (f *frames) ended() (opened uint32) {
	if f.left > 0 || f.have < frameHeaderBytes {
		return 0
	}
	f.have = 0
	if typ := f.header[3]; (typ == frameHeaders || typ == frameContinuation) && f.header[4]&flagEndHeaders != 0 {
		return f.stream()
	}
	return 0
}
