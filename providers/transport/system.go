package transport

import (
	"regexp"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
)

// systemless has the models of an endpoint that accept no system messages: chat templates such as Gemma's refuse them.
type systemless struct{ Refusals }

// folded returns req in the form that the model accepts: with its system messages in front of the user's turn, if the
// model has refused them before.
func (s *systemless) folded(model string, req *providers.Request) *providers.Request {
	if !s.Has(model) || !hasSystem(req) {
		return req
	}
	own := *req
	own.Messages = fold(req.Messages)
	if req.Prefixes != nil { // their places have changed
		own.Prefixes = []providers.Prefix{}
	}
	return &own
}

// learn learns from err, the failure of a call that was sent as req; see Refusals.Learn.
func (s *systemless) learn(model string, sent *providers.Request, err error) error {
	return s.Learn(model, err, func(failed *providers.Error) bool { return hasSystem(sent) && refusesSystem(failed) })
}

func hasSystem(req *providers.Request) bool {
	return slices.ContainsFunc(req.Messages, func(m providers.Message) bool { return m.Role == providers.System })
}

// fold moves each system message into the user's next turn; one at the end becomes a turn.
func fold(messages []providers.Message) []providers.Message {
	var folded []providers.Message
	var said []string
	for _, m := range messages {
		switch {
		case m.Role == providers.System:
			said = append(said, m.Content)
			continue
		case m.Role == providers.User && len(said) > 0:
			whole := strings.Join(append(said, m.Content), "\n\n")
			m.Images = moved(m.Images, len(whole)-len(m.Content))
			m.Content, said = whole, nil
		}
		folded = append(folded, m)
	}
	if len(said) > 0 {
		folded = append(folded, providers.Message{Role: providers.User, Content: strings.Join(said, "\n\n")})
	}
	return folded
}

// moved returns images whose text has begun so many bytes later.
func moved(images []providers.Image, by int) []providers.Image {
	images = slices.Clone(images)
	for i := range images {
		images[i].Offset += by
	}
	return images
}

// aboutSystem matches messages of chat templates and endpoints about a system message.
var aboutSystem = regexp.MustCompile(`(?i)\bsystem['"” ]*(?:role|messages?|prompts?|instructions?)?['"” ]*(?:(?:is|` +
	`are) )?(?:not (?:currently )?|un)(?:supported|allowed|permitted|enabled)` +
	`|(?:\bnot|n't|\bcannot) (?:support|allow|accept|take|have)s? (?:a |any |the )?['"‘“]?system\b` + // Bedrock, OpenAI's o1
	`|developer instruction is not enabled` + // Gemma at Google
	`|only user and assistant roles are supported` + // Mistral's templates, LM Studio
	`|(?:conversation )?roles must alternate`) // templates for which a system message is an extra turn

// refusesSystem reports whether an endpoint refused a request because of its system message. Some servers report a
// failing template as an error of the server, not of the request.
func refusesSystem(err *providers.Error) bool {
	return (err.Class == providers.BadRequest || err.Class == providers.Transient) && aboutSystem.MatchString(err.Message)
}
