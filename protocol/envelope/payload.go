package envelope

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/parleykit/parley/protocol/message"
)

// encodingTag marks a content that is base64 of deflated message JSON.
var encodingTag = nostr.Tag{"encoding", "deflate"}

// pack turns message JSON into a rumor's content: deflated and in base64 when
// that is at least a tenth shorter, as it is otherwise.
func pack(data []byte) (content string, tags nostr.Tags) {
	var deflated bytes.Buffer
	w, err := flate.NewWriter(&deflated, flate.BestCompression)
	if err != nil {
		panic(err) // constant level
	}
	w.Write(data) // a bytes.Buffer takes everything
	w.Close()
	if base64.StdEncoding.EncodedLen(deflated.Len())*10 > len(data)*9 {
		return string(data), nostr.Tags{}
	}
	return base64.StdEncoding.EncodeToString(deflated.Bytes()), nostr.Tags{encodingTag}
}

// unpack undoes pack. It yields at most message.MaxSize bytes and reads no
// more than that out of the deflated stream.
func unpack(content string, deflate bool) ([]byte, error) {
	if !deflate {
		return []byte(content), nil
	}
	raw, err := decodeBase64(content)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInflate, err)
	}
	stream := bytes.NewReader(raw)
	data, err := io.ReadAll(io.LimitReader(flate.NewReader(stream), message.MaxSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrInflate, err)
	case len(data) > message.MaxSize:
		return nil, fmt.Errorf("%w: more than %d bytes", ErrInflate, message.MaxSize)
	case stream.Len() != 0:
		return nil, fmt.Errorf("%w: data after the stream", ErrInflate)
	}
	return data, nil
}

// decodeBase64 is strict: the library's decoder skips line breaks, which would
// give one value many spellings, and go-nostr's Decrypt panics on a payload of
// nothing else.
func decodeBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, base64.CorruptInputError(strings.IndexAny(s, "\r\n"))
	}
	return base64.StdEncoding.Strict().DecodeString(s)
}
