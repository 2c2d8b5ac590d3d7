// Package wire reads and writes the JSON that several external formats of prompts share: messages, settings, and
// objects whose keys keep their order. It does not know the formats.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/evalfleet/evalfleet/eval"
)

// roles maps the names of roles in all APIs to ours.
var roles = map[string]string{"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "model": "assistant"}

// Messages parses a list of messages, which form one turn. name is the list's name in errors. systemFirst names an
// API that accepts a system message only as the first one; if it is empty, system messages can be anywhere. pictured says
// that messages of users may show images, which have only a Name: what the prompt says they are.
func Messages(name string, parts []json.RawMessage, systemFirst string, pictured bool) (eval.Conversation, error) {
	var turn []eval.Message
	for i, part := range parts {
		var m struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
			Parts   json.RawMessage `json:"parts"` // Google's name for content
		}
		at := fmt.Sprintf("%s[%d]", name, i)
		if Kind(part) != '{' || json.Unmarshal(part, &m) != nil || (m.Content == nil) == (m.Parts == nil) {
			return eval.Conversation{}, fmt.Errorf(
				`%s is not a message: want {"role": …, "content": …}, or for Google's models {"role": …, "parts": …}`, at,
			)
		}
		role, known := roles[m.Role]
		switch {
		case !known:
			return eval.Conversation{}, fmt.Errorf("%s has the role %q: want system, user or assistant (model for Google's models)", at, m.Role)
		case role == "system" && i > 0 && systemFirst != "":
			return eval.Conversation{}, fmt.Errorf("%s has the role system, which only the first message of %s can have", at, systemFirst)
		}
		said, err := contentOf(m.Content, m.Parts, pictured)
		if err == nil && role != "user" && len(said.Images) > 0 {
			err = errors.New("only messages with the role user can show images")
		}
		if err != nil {
			return eval.Conversation{}, fmt.Errorf("%s: %w", at, err)
		}
		said.Role = role
		turn = append(turn, said)
	}

	if turn[len(turn)-1].Role == "system" {
		return eval.Conversation{}, fmt.Errorf("%s ends with a message of the role system: the last message must have the role user", name)
	}
	return eval.Conversation{Turns: [][]eval.Message{turn}}, nil
}

// contentOf returns the text and the images of a message. It joins the texts of several parts with blank lines.
func contentOf(content, parts json.RawMessage, pictured bool) (said eval.Message, err error) {
	raw := content
	if raw == nil {
		raw = parts
	}
	list := []json.RawMessage{raw}
	if Kind(raw) == '[' {
		if err := json.Unmarshal(raw, &list); err != nil {
			return said, err
		}
	}

	between := ""
	for _, part := range list {
		image, is, err := imagePart(part)
		if is && err == nil && pictured {
			image.Offset = len(said.Content)
			said.Images = append(said.Images, image)
			continue
		}
		if err != nil {
			return said, err
		}
		text, err := textPart(part)
		if err != nil {
			return said, err
		}
		said.Content += between + text
		between = "\n\n"
	}
	return said, nil
}

// source is where an image is: an address, or an object with one, in the words of several APIs.
type source struct {
	URL    string `json:"url"`
	Detail string `json:"detail"`
	Media  string `json:"media"` // prompto's name of a file
	Type   string `json:"media_type"`
	Data   string `json:"data"`
}

// imagePart returns the image that a part shows; false: it shows none.
func imagePart(part json.RawMessage) (shown eval.Shown, is bool, err error) {
	var typed struct {
		Type     string          `json:"type"`
		ImageURL json.RawMessage `json:"image_url"`
		Detail   string          `json:"detail"`
		Source   *source         `json:"source"`
		Media    string          `json:"media"`
	}
	if Kind(part) != '{' || json.Unmarshal(part, &typed) != nil {
		return shown, false, nil
	}
	of := source{Media: typed.Media, Detail: typed.Detail}
	switch {
	case typed.Type == "image_url" || typed.Type == "input_image":
		if json.Unmarshal(typed.ImageURL, &of.URL) != nil && json.Unmarshal(typed.ImageURL, &of) != nil {
			return shown, true, errors.New("a part of its content has no image_url")
		}
	case typed.Type == "image" && typed.Source != nil:
		of = *typed.Source
	case typed.Type == "image":
	default:
		return shown, false, nil
	}

	switch shown.Detail = of.Detail; {
	case of.URL != "":
		shown.Name = of.URL
	case of.Media != "":
		shown.Name = of.Media
	case of.Data != "":
		shown.Name = "data:" + of.Type + ";base64," + of.Data
	default:
		return shown, true, errors.New("a part of its content is an image without an address, a file or data")
	}
	return shown, true, nil
}

func textPart(part json.RawMessage) (string, error) {
	if Kind(part) == '"' {
		return Text(part)
	}
	var typed struct {
		Type string          `json:"type"`
		Text json.RawMessage `json:"text"`
	}
	if Kind(part) != '{' || json.Unmarshal(part, &typed) != nil {
		return "", errors.New("its content is neither a text nor a list of texts")
	}
	switch typed.Type {
	case "", "text", "input_text", "output_text":
		if typed.Text == nil {
			return "", fmt.Errorf("a part of its content has no text")
		}
		return Text(typed.Text)
	}
	return "", fmt.Errorf("a part of its content has the type %q, which is not supported here", typed.Type)
}

// Text returns the value of a JSON string.
func Text(raw json.RawMessage) (text string, err error) {
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("no text: %w", err)
	}
	return text, nil
}

// Kind returns the first byte of a JSON value. That is a quotation mark for a text, [ for a list, { for an object,
// and 0 for an empty value.
func Kind(raw json.RawMessage) byte {
	if raw = bytes.TrimSpace(raw); len(raw) > 0 {
		return raw[0]
	}
	return 0
}
