package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// Every operation that a test of this package asks for, over the socket or
// not, is held against the document: what was accepted and what was answered.
func init() {
	for i, op := range operations {
		if op.stream != nil {
			operations[i].stream = func(ctx context.Context, a *Agent, body []byte, emit func([]byte) error) error {
				if err := op.stream(ctx, a, body, func(line []byte) error {
					return errors.Join(CheckAnswer("POST", "/v1/"+op.Name, 200, "application/x-ndjson", line), emit(line))
				}); err != nil {
					return err
				}
				return CheckRequest(op.Name, body)
			}
			continue
		}
		operations[i].call = func(ctx context.Context, a *Agent, body []byte) (any, error) {
			answer, err := op.call(ctx, a, body)
			if err != nil {
				return answer, err
			}
			data, err := json.Marshal(answer)
			if err != nil {
				return nil, err
			}
			if err := CheckRequest(op.Name, body); err != nil {
				return nil, fmt.Errorf("%s took a request that openapi.json does not allow: %w", op.Name, err)
			}
			return answer, CheckAnswer("POST", "/v1/"+op.Name, 200, "application/json", data)
		}
	}
}

// document is openapi.json read back, without a look at Go's types.
type document struct {
	Paths map[string]map[string]struct {
		RequestBody struct {
			Content map[string]content `json:"content"`
		} `json:"requestBody"`
		Responses map[string]response `json:"responses"`
	} `json:"paths"`
	Components struct {
		Responses map[string]response        `json:"responses"`
		Schemas   map[string]json.RawMessage `json:"schemas"`
	} `json:"components"`

	mu       sync.Mutex
	resolved map[string]*jsonschema.Resolved
}

type response struct {
	Ref     string             `json:"$ref"`
	Content map[string]content `json:"content"`
}

type content struct {
	Schema json.RawMessage `json:"schema"`
}

var readDocument = sync.OnceValues(func() (*document, error) {
	d := &document{resolved: make(map[string]*jsonschema.Resolved)}
	return d, json.Unmarshal(openAPI, d)
})

// CheckRequest holds a request of an operation against the document.
func CheckRequest(operation string, body []byte) error {
	d, err := readDocument()
	if err != nil {
		return err
	}
	described, found := d.Paths["/v1/"+operation]["post"]
	if !found {
		return fmt.Errorf("no operation %s", operation)
	}
	return d.validate(described.RequestBody.Content, "application/json", body)
}

// Describes reports whether the document has a path.
func Describes(method, path string) bool {
	d, err := readDocument()
	if err != nil {
		return false
	}
	_, found := d.Paths[path][strings.ToLower(method)]
	return found
}

// CheckAnswer holds one answer, or one line of a stream, against the document.
func CheckAnswer(method, path string, status int, media string, body []byte) error {
	d, err := readDocument()
	if err != nil {
		return err
	}
	described, found := d.Paths[path][strings.ToLower(method)]
	if !found {
		return fmt.Errorf("no path %s %s", method, path)
	}
	answer, found := described.Responses[strconv.Itoa(status)]
	if name, isRef := strings.CutPrefix(answer.Ref, "#/components/responses/"); isRef {
		answer, found = d.Components.Responses[name]
	}
	if !found {
		return fmt.Errorf("%s %s has no answer %d", method, path, status)
	}
	if err := d.validate(answer.Content, media, body); err != nil {
		return fmt.Errorf("%s %s answered %.300s: %w", method, path, body, err)
	}
	return nil
}

func (d *document) validate(by map[string]content, media string, body []byte) error {
	described, found := by[media]
	if !found {
		return fmt.Errorf("no content of type %s", media)
	}
	schema, err := d.resolve(described.Schema)
	if err != nil {
		return err
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	return schema.Validate(value)
}

// resolve makes a schema of its own of one in the document: references lead to
// its $defs.
func (d *document) resolve(schema json.RawMessage) (*jsonschema.Resolved, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.resolved[string(schema)]; known != nil {
		return known, nil
	}
	whole, err := json.Marshal(object{"allOf": []any{schema}, "$defs": d.Components.Schemas})
	if err != nil {
		return nil, err
	}
	var root jsonschema.Schema
	local := strings.ReplaceAll(string(whole), schemaPrefix, "#/$defs/")
	if err := json.Unmarshal([]byte(local), &root); err != nil {
		return nil, err
	}
	d.resolved[string(schema)], err = root.Resolve(nil)
	return d.resolved[string(schema)], err
}
