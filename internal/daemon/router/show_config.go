// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"io"

	"minne/internal/appliance/boot"
	"minne/internal/model/api"
	"minne/internal/model/config"
)

// ConfigQuestion asks for a configuration.
type ConfigQuestion struct {
	Effective bool `json:"effective" flag:"effective" doc:"show the complete configuration, defaults marked"`
	Revision  int  `json:"revision" flag:"revision" doc:"'number' of the revision to show instead (see minne revisions)"`
}

// Config is show config.
var Config = View[ConfigQuestion, api.Revision]{
	Text: Text{Path: "config", Short: "Show the running configuration, or an earlier one",
		Long: `Show the running configuration as its operator wrote it, or an earlier one.

With --effective, show the complete configuration: a key that is absent in the file stands
there with its default and the comment "# default". Sections that are absent stay absent:
what they configure is off. So do keys whose default depends on others or on the machine; the
reference says "Absent:" about those. The file's own comments are not shown. The output is a
valid configuration for the same router.`},
	Read: func(_ context.Context, d *Daemon, q ConfigQuestion) (api.Revision, error) {
		if q.Revision == 0 {
			q.Revision = d.engine.runningNumber()
		}
		rev, err := d.revision(q.Revision)
		if err == nil && q.Effective {
			err = Complete(&rev)
		}
		return rev, err
	},
	Print: func(w io.Writer, _ ConfigQuestion, r api.Revision) error {
		_, err := fmt.Fprint(w, r.Text)
		return err
	},
}

// Complete replaces the text of a revision by the complete one, defaults marked.
func Complete(r *api.Revision) error {
	cfg, err := config.Parse(fmt.Sprintf("revision %d", r.Number), []byte(r.Text))
	if err == nil {
		r.Text = string(config.Effective(cfg))
	}
	return err
}

// Boot is show boot.
var Boot = View[Nothing, boot.Report]{
	Text: Text{Path: "boot", Short: "Show how the router's image started: slot, steps, time until it forwarded"},
	Read: func(context.Context, *Daemon, Nothing) (boot.Report, error) { return boot.ReadReport() },
	Print: func(w io.Writer, _ Nothing, r boot.Report) error {
		_, err := fmt.Fprint(w, r.Text())
		return err
	},
}
