// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"net/http"

	"minne/internal/model/api"
	"minne/internal/subsystem/fastpath"
)

// Capture is minne capture, and EndCapture its orderly end.
var (
	Capture = api.Operation[fastpath.CaptureFilter, CaptureEvent]{Method: "POST", Path: "/v1/capture", Short: "Capture packets",
		Root: true, Private: true, Goes: true}
	EndCapture = api.Operation[api.Empty, api.Empty]{Method: "POST", Path: "/v1/capture/end", Short: "Stop the capture", Root: true}
)

// CaptureEvent is a piece of the answer to a capture: first Started, then packets, at the end how it
// went. One field is set.
type CaptureEvent struct {
	Started bool                     `json:"started,omitempty"`
	Packet  *fastpath.CapturedPacket `json:"packet,omitempty"`
	End     *CaptureEnd              `json:"end,omitempty"`
}

// CaptureEnd is how a capture went, and why it ended if nobody asked it to.
type CaptureEnd struct {
	fastpath.CaptureCounts
	Why string `json:"why,omitempty"`
}

var errStopping = errors.New("the daemon is stopping")

// answerCapture captures until the one who asked hangs up, or asks for the end.
func (d *Daemon) answerCapture(ctx context.Context, filter fastpath.CaptureFilter, say func(CaptureEvent) error) error {
	begun := false
	counts, err := d.parts.fastpath.Capture(ctx, filter,
		func() error { begun = true; return say(CaptureEvent{Started: true}) },
		func(p fastpath.CapturedPacket) error { return say(CaptureEvent{Packet: &p}) })
	if !begun {
		return err
	}
	end := &CaptureEnd{CaptureCounts: counts}
	if err != nil {
		end.Why = err.Error()
	}
	return say(CaptureEvent{End: end})
}

// answerCaptureEnd ends the capture, so that its reader gets what is left of it.
func (d *Daemon) answerCaptureEnd(*http.Request, api.Empty) (api.Empty, error) {
	d.parts.fastpath.EndCapture(nil)
	return api.Empty{}, nil
}
