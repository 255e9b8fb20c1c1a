// SPDX-License-Identifier: Apache-2.0

package router

import (
	"fmt"
	"net/http"

	"minne/internal/model/api"
	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/kernel"
)

// ExplainQuestion asks what becomes of packets that arrive by an interface: one that is
// described, or whole frames. Asking changes nothing, so whoever may look may ask.
type ExplainQuestion struct {
	Interface string        `json:"interface"`
	Packet    *packet.Probe `json:"packet,omitempty"`
	Frames    [][]byte      `json:"frames,omitempty"` // as a capture on the interface has them
}

// Explained is the answer for one packet.
type Explained struct {
	fastpath.Explanation
	Kernel   *kernel.Opinion `json:"kernel,omitempty"`   // of what the fast path leaves to it
	Firewall *Firewalled     `json:"firewall,omitempty"` // and what its rules say
}

// maxFrames bounds the frames of one question.
const maxFrames = 1000

// answerExplain runs the loaded configuration on packets.
func (d *Daemon) answerExplain(_ *http.Request, q ExplainQuestion) ([]Explained, error) {
	arrival, err := d.parts.fastpath.ArrivalOf(q.Interface)
	if err != nil {
		return nil, &api.Error{Kind: api.Missing, Message: err.Error()}
	}
	frames := make([][]byte, 0, len(q.Frames)+1)
	if q.Packet != nil {
		frame, err := q.Packet.Frame(arrival.MAC, arrival.Tags)
		if err != nil {
			return nil, err
		}
		frames = append(frames, frame)
	}
	if len(q.Frames) > maxFrames {
		return nil, fmt.Errorf("%d frames: at most %d in one question", len(q.Frames), maxFrames)
	}
	for _, frame := range q.Frames {
		frames = append(frames, packet.AddTags(frame, arrival.Tags))
	}
	all := make([]Explained, 0, len(frames))
	for _, frame := range frames {
		one, err := d.parts.explain(frame, arrival.Port)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// explain asks the fast path about a frame on a port, and the kernel about what that leaves to it.
func (p parts) explain(frame []byte, port int) (Explained, error) {
	e, err := p.fastpath.Explain(frame, port)
	if err != nil {
		return Explained{}, err
	}
	x := Explained{Explanation: e}
	if e.Verdict != fastpath.VerdictPunted || e.Interface == "" || !e.IP.Source.IsValid() {
		return x, nil
	}
	o, err := p.kernel.Ask(kernel.Question{Source: e.IP.Source, Destination: e.IP.Destination, Interface: e.Interface, AntiSpoof: e.AntiSpoof})
	if err != nil {
		return x, nil // the interface went meanwhile; what the fast path says stands
	}
	x.Kernel = &o
	if !o.Dropped && (o.Local || o.Egress != "") {
		x.Firewall = p.judging.ask(e.Interface, o.Egress, e.IP)
	}
	return x, nil
}
