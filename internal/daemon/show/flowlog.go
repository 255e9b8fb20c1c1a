// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/model/flowrecord"
	"minne/internal/subsystem/flowlog"
	"minne/internal/subsystem/flows"
)

// FlowLogAnswer is what show flows log shows.
type FlowLogAnswer struct {
	Records  []FlowRecord      `json:"records"` // the latest last
	More     bool              `json:"more"`    // earlier ones match, too
	Blocks   int               `json:"blocks"`  // of the log
	Read     int               `json:"blocks_read"`
	Seconds  float64           `json:"seconds"` // that the question took
	Log      flowlog.Stats     `json:"log"`
	Recorded flows.RecordStats `json:"recorded"` // since the daemon's start
	Dropped  uint64            `json:"dropped"`  // records that the disk could not take
}

// FlowRecord is a record of a connection.
type FlowRecord struct {
	Began       *time.Time `json:"began,omitempty"` // the connection
	From        time.Time  `json:"from"`            // what the record is about
	To          time.Time  `json:"to"`
	Reason      string     `json:"reason"` // lasts, closed, reset, deleted, expired
	Protocol    string     `json:"protocol"`
	Source      flows.End  `json:"source"`
	Destination flows.End  `json:"destination"` // who answers, after translation
	// What the other side saw in their places, where that was translated.
	TranslatedSource      *flows.End `json:"translated_source,omitempty"`
	TranslatedDestination *flows.End `json:"translated_destination,omitempty"`
	ID                    uint16     `json:"icmp_id,omitempty"`
	TranslatedID          uint16     `json:"translated_icmp_id,omitempty"`
	Answered              bool       `json:"answered"`
	In                    string     `json:"in,omitempty"` // interfaces and zones
	Out                   string     `json:"out,omitempty"`
	FromZone              string     `json:"from_zone,omitempty"`
	ToZone                string     `json:"to_zone,omitempty"`
	Table                 uint16     `json:"table,omitempty"` // of the VRF
	Packets               [2]uint64  `json:"packets"`         // index 0 from the source, 1 towards it
	Bytes                 [2]uint64  `json:"bytes"`
}

// FlowLogRecords makes an answer of records.
func FlowLogRecords(records []flowrecord.Record) FlowLogAnswer {
	a := FlowLogAnswer{Records: make([]FlowRecord, len(records))}
	for i := range records {
		r := &records[i]
		icmp := r.Protocol == unix.IPPROTO_ICMP || r.Protocol == unix.IPPROTO_ICMPV6
		end := func(e netip.AddrPort) flows.End {
			if icmp {
				return flows.End{Address: e.Addr()}
			}
			return flows.End{Address: e.Addr(), Port: e.Port()}
		}
		f := FlowRecord{From: r.From, To: r.To, Reason: r.Reason.String(), Protocol: flows.ProtocolName(r.Protocol),
			Source: end(r.Source), Destination: end(r.Destination), Answered: r.Answered, In: r.In.Interface, Out: r.Out.Interface,
			FromZone: r.In.Zone, ToZone: r.Out.Zone, Table: r.Table, Packets: r.Packets, Bytes: r.Bytes}
		if !r.Began.IsZero() {
			f.Began = &r.Began
		}
		if icmp {
			if f.ID = r.Source.Port(); r.Seen.Port() != f.ID {
				f.TranslatedID = r.Seen.Port()
			}
		}
		if seen := end(r.Seen); seen != f.Source {
			f.TranslatedSource = &seen
		}
		if called := end(r.Called); called != f.Destination {
			f.TranslatedDestination = &called
		}
		a.Records[i] = f
	}
	return a
}

// FlowLog prints records of the flow log.
func FlowLog(w io.Writer, a FlowLogAnswer) error {
	word := "records"
	if len(a.Records) == 1 {
		word = "record"
	}
	fmt.Fprintf(w, "%s %s", count(len(a.Records)), word)
	if a.More {
		fmt.Fprint(w, ", the latest; there are more, --top N for them")
	}
	fmt.Fprintf(w, "; the log has %s records in %s", count(a.Log.Records), bytes(uint64(a.Log.Bytes)))
	if a.Log.Oldest != nil {
		fmt.Fprintf(w, ", since %s", a.Log.Oldest.Local().Format(time.DateTime))
	}
	fmt.Fprintln(w)
	if lost := a.Recorded.Lost + a.Dropped; lost > 0 {
		fmt.Fprintf(w, "%s records were lost since the daemon's start: %s came too fast, %s could not be stored\n", count(lost), count(a.Recorded.Lost), count(a.Dropped))
	}
	if a.Log.Damaged > 0 {
		fmt.Fprintf(w, "damaged blocks were found %s times: the disk may be failing\n", count(a.Log.Damaged))
	}
	if len(a.Records) == 0 {
		return nil
	}
	t := table{head: []string{"From", "To", "Proto", "Source", "Destination", "Translated", ">Bytes →", ">←", "End"}}
	for _, r := range a.Records {
		destination := r.Destination.String()
		if r.ID != 0 {
			destination += fmt.Sprintf(" id %d", r.ID)
		}
		f := flows.Flow{TranslatedSource: r.TranslatedSource, TranslatedDestination: r.TranslatedDestination}
		t.row(r.From.Local().Format(time.DateTime), r.To.Local().Format(time.TimeOnly), r.Protocol, r.Source.String(), destination, translated(f),
			bytes(r.Bytes[0]), bytes(r.Bytes[1]), r.Reason)
	}
	return t.write(w)
}
