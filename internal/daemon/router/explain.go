// SPDX-License-Identifier: Apache-2.0

package router

import (
	"fmt"
	"net/http"

	"minne/internal/daemon/show"
	"minne/internal/model/api"
	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/kernel"
)

// Explain is minne explain.
var Explain = api.Operation[ExplainQuestion, Explanations]{Method: "POST", Path: "/v1/explain", Short: "Show what happens to packets, stage by stage"}

// ExplainQuestion asks what becomes of packets that arrive by an interface: one that is
// described, or whole frames. Asking changes nothing, so whoever may look may ask.
type ExplainQuestion struct {
	Interface string        `json:"interface"`
	Packet    *packet.Probe `json:"packet,omitempty"`
	Frames    [][]byte      `json:"frames,omitempty"` // as a capture on the interface has them
}

// Explanations are the answers, a packet each.
type Explanations struct {
	Packets []show.Explained `json:"packets"`
}

// maxFrames bounds the frames of one question.
const maxFrames = 1000

// answerExplain runs the loaded configuration on packets.
func (d *Daemon) answerExplain(_ *http.Request, q ExplainQuestion) (x Explanations, err error) {
	arrival, err := d.parts.fastpath.ArrivalOf(q.Interface)
	if err != nil {
		return x, &api.Error{Kind: api.Missing, Message: err.Error()}
	}
	frames := make([][]byte, 0, len(q.Frames)+1)
	if q.Packet != nil {
		frame, err := q.Packet.Frame(arrival.MAC, arrival.Tags)
		if err != nil {
			return x, err
		}
		frames = append(frames, arrival.InSession(frame))
	}
	if len(q.Frames) > maxFrames {
		return x, fmt.Errorf("%d frames: at most %d in one question", len(q.Frames), maxFrames)
	}
	for _, frame := range q.Frames {
		frames = append(frames, arrival.InSession(packet.AddTags(frame, arrival.Tags)))
	}
	all := make([]show.Explained, 0, len(frames))
	for _, frame := range frames {
		one, err := d.parts.explain(frame, arrival.Port)
		if err != nil {
			return x, err
		}
		all = append(all, one)
	}
	return Explanations{all}, nil
}

// explain asks the fast path about a frame on a port, and the kernel about what that leaves to it.
func (p parts) explain(frame []byte, port int) (show.Explained, error) {
	e, err := p.fastpath.Explain(frame, port)
	if err != nil {
		return show.Explained{}, err
	}
	x := show.Explained{Explanation: e}
	if e.Verdict != fastpath.VerdictPunted || e.Interface == "" || !e.IP.Source.IsValid() {
		return x, nil
	}
	o, err := p.kernel.Ask(kernel.Question{Source: e.IP.Source, Destination: e.IP.Destination, Interface: e.Interface, AntiSpoof: e.AntiSpoof})
	if err != nil {
		return x, nil // the interface went meanwhile; what the fast path says stands
	}
	x.Kernel = &o
	if !o.Dropped && (o.Local || o.Egress != "") {
		x.Firewall = p.offload.ask(e.Interface, o.Egress, e.IP)
	}
	return x, nil
}
