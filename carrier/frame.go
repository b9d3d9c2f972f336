package carrier

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Sizes of frames, in bytes.
const (
	FrameHeader = 32      // before the payload
	MaxFramed   = 1 << 20 // the longest wrap that frames carry
	MinPayload  = 64      // of every frame that is not the last of its wrap
)

// ErrFrame means that bytes are no frame of docs/spec/frame.md.
var ErrFrame = errors.New("carrier: malformed frame")

// Frame is one piece of a wrap, for carriers that take little at a time.
// docs/spec/frame.md has its bytes.
type Frame struct {
	Wrap    [16]byte // SHA-256 of the wrap's bytes, the first half
	Offset  int      // of Payload within the wrap
	Total   int      // size of the wrap: 1 to MaxFramed
	Payload []byte   // 1 byte or more; MinPayload unless it is the wrap's end
}

const (
	frameMagic   = "PF"
	frameVersion = 1
	textMagic    = "UEYB" // what frameMagic and frameVersion are in text mode
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func frameKey(wrap []byte) (key [16]byte) {
	sum := sha256.Sum256(wrap)
	copy(key[:], sum[:])
	return key
}

// Encode writes the frame in binary, or in text mode as base64url (RFC 4648
// section 5, no padding).
func (f Frame) Encode(text bool) []byte {
	data := make([]byte, 0, FrameHeader+len(f.Payload))
	data = append(data, frameMagic...)
	data = append(data, frameVersion, 0)
	data = append(data, f.Wrap[:]...)
	data = binary.BigEndian.AppendUint32(data, uint32(f.Offset))
	data = binary.BigEndian.AppendUint32(data, uint32(f.Total))
	sum := crc32.Update(crc32.Checksum(data, castagnoli), castagnoli, f.Payload)
	data = binary.BigEndian.AppendUint32(data, sum)
	data = append(data, f.Payload...)
	if text {
		return base64.RawURLEncoding.AppendEncode(nil, data)
	}
	return data
}

// IsFrame reports whether bytes begin like a frame, in either mode. A wrap
// never does.
func IsFrame(data []byte) bool {
	return bytes.HasPrefix(data, []byte(frameMagic)) || bytes.HasPrefix(data, []byte(textMagic))
}

// ParseFrame reads a frame in either mode; what is wrong wraps ErrFrame.
// Payload may share memory with data.
func ParseFrame(data []byte) (Frame, error) {
	if len(data) > base64.RawURLEncoding.EncodedLen(FrameHeader+MaxFramed) {
		return Frame{}, fmt.Errorf("%w: %d bytes", ErrFrame, len(data))
	}
	if bytes.HasPrefix(data, []byte(textMagic)) {
		decoded, err := base64.RawURLEncoding.Strict().DecodeString(string(data))
		if err != nil || bytes.ContainsAny(data, "\r\n") {
			return Frame{}, fmt.Errorf("%w: base64url", ErrFrame)
		}
		data = decoded
	}
	if len(data) <= FrameHeader || string(data[:2]) != frameMagic || data[2] != frameVersion || data[3] != 0 {
		return Frame{}, fmt.Errorf("%w: header", ErrFrame)
	}
	offset, total := binary.BigEndian.Uint32(data[20:]), binary.BigEndian.Uint32(data[24:])
	payload := data[FrameHeader:]
	sum := crc32.Update(crc32.Checksum(data[:28], castagnoli), castagnoli, payload)
	end := uint64(offset) + uint64(len(payload))
	switch {
	case sum != binary.BigEndian.Uint32(data[28:]):
		return Frame{}, fmt.Errorf("%w: checksum", ErrFrame)
	case total > MaxFramed || end > uint64(total):
		return Frame{}, fmt.Errorf("%w: range", ErrFrame)
	case len(payload) < MinPayload && end < uint64(total):
		return Frame{}, fmt.Errorf("%w: payload of %d bytes", ErrFrame, len(payload))
	}
	f := Frame{Offset: int(offset), Total: int(total), Payload: payload}
	copy(f.Wrap[:], data[4:20])
	return f, nil
}

// Split cuts a wrap into frames of at most limit bytes, written in binary or
// text mode. A wrap over MaxFramed or a limit that leaves no MinPayload is an
// ErrFrame.
func Split(wrap []byte, limit int, text bool) ([][]byte, error) {
	if text {
		limit = base64.RawURLEncoding.DecodedLen(limit)
	}
	size := limit - FrameHeader
	if size < MinPayload || len(wrap) == 0 || len(wrap) > MaxFramed {
		return nil, fmt.Errorf("%w: a wrap of %d bytes in frames of %d", ErrFrame, len(wrap), limit)
	}
	var frames [][]byte
	for from := 0; from < len(wrap); from += size {
		f := Frame{Wrap: frameKey(wrap), Offset: from, Total: len(wrap), Payload: wrap[from:min(from+size, len(wrap))]}
		frames = append(frames, f.Encode(text))
	}
	return frames, nil
}
