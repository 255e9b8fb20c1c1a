// SPDX-License-Identifier: Apache-2.0

package page

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"minne/internal/base/plan"
	"minne/internal/daemon/router"
	"minne/internal/model/api"
	"minne/internal/model/config"
)

// confirmTime is how long somebody has to press Keep after an apply. Without it the router goes back by itself: a browser
// that does not reach the router any more can't press it.
const confirmTime = 2 * time.Minute

// editorBody is the file, and what the checker or the router says of it.
type editorBody struct {
	Section  section
	Text     string
	Comment  string
	Trouble  string // as the checker prints it
	Lines    []int  // that it blames
	Checked  bool
	Changes  []plan.Change
	Warnings []string
	Diff     []diffLine
	Same     bool
}

// diffLine is one line of a difference.
type diffLine struct{ Class, Text string }

func diffOf(old, new, oldName, newName string) (lines []diffLine) {
	for line := range strings.Lines(config.Diff([]byte(old), []byte(new), oldName, newName)) {
		class := ""
		switch {
		case strings.HasPrefix(line, "@@"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
			class = "place"
		case line[0] == '+':
			class = "added"
		case line[0] == '-':
			class = "removed"
		}
		lines = append(lines, diffLine{class, line})
	}
	return lines
}

// running is the text of the configuration in use.
func running(r *request) (string, error) {
	ctx, end := bounded(r)
	defer end()
	rev, err := router.Config.Ask(ctx, r.client, router.ConfigQuestion{})
	if api.KindOf(err) == api.Missing && err != nil {
		return "version: 1\n", nil // none yet
	}
	return rev.Text, err
}

// editor is the file in use, to be edited.
func (p *Page) editor(w http.ResponseWriter, r *request) {
	text, err := running(r)
	if err != nil {
		p.failBy(w, r, err)
		return
	}
	p.page(w, r, http.StatusOK, "editor", "Configuration", "Edit the configuration", editorBody{Section: sectionOf("/configuration"), Text: text})
}

// sourceName is what the checker calls the text.
const sourceName = "configuration"

// blamed are places in what it says.
var blamed = regexp.MustCompile(`(?m)^` + sourceName + `:(\d+):\d+: `)

// edit checks the text, or applies it.
func (p *Page) edit(w http.ResponseWriter, r *request) {
	b := editorBody{Section: sectionOf("/configuration"), Comment: strings.TrimSpace(r.PostForm.Get("comment"))}
	b.Text = strings.ReplaceAll(r.PostForm.Get("text"), "\r\n", "\n") // as forms send lines
	question := api.Commit{Config: b.Text, Source: sourceName, Comment: b.Comment}
	old, err := running(r)
	if err == nil && r.PostForm.Get("do") == "apply" {
		question.Confirm = confirmTime
		if _, err = api.Apply.Ask(r.Context(), r.client, question); err == nil {
			http.Redirect(w, r.Request, "/", http.StatusSeeOther) // where the page asks to keep it
			return
		}
	} else if err == nil {
		var result api.Result
		if result, err = api.Plan.Ask(r.Context(), r.client, question); err == nil {
			b.Checked, b.Changes, b.Warnings, b.Same = true, result.Changes, result.Warnings, result.Outcome == api.Unchanged
			b.Diff = diffOf(old, b.Text, "in use", "yours")
		}
	}
	status := http.StatusOK
	if err != nil {
		status = http.StatusUnprocessableEntity
		b.Trouble = err.Error()
		for _, m := range blamed.FindAllStringSubmatch(b.Trouble, -1) {
			if n, err := strconv.Atoi(m[1]); err == nil && !slices.Contains(b.Lines, n) {
				b.Lines = append(b.Lines, n)
			}
		}
	}
	p.page(w, r, status, "editor", "Configuration", "Edit the configuration", b)
}

// revisionsBody is the history, the newest first.
type revisionsBody struct {
	Section   section
	Revisions []api.Revision
}

func (p *Page) revisions(w http.ResponseWriter, r *request) {
	ctx, end := bounded(r)
	defer end()
	all, err := api.GetRevisions.Ask(ctx, r.client, api.Empty{})
	if err != nil {
		p.failBy(w, r, err)
		return
	}
	slices.Reverse(all.Revisions)
	p.page(w, r, http.StatusOK, "revisions", "Configuration", "Revisions", revisionsBody{sectionOf("/revisions"), all.Revisions})
}

// revisionBody is one revision.
type revisionBody struct {
	Section section
	api.Revision
	Diff []diffLine
}

func (p *Page) revision(w http.ResponseWriter, r *request) {
	ctx, end := bounded(r)
	defer end()
	rev, err := api.GetRevision.Ask(ctx, r.client, api.RevisionQuestion{Number: r.PathValue("number")})
	if err != nil {
		p.failBy(w, r, err)
		return
	}
	b := revisionBody{Section: sectionOf("/revisions"), Revision: rev}
	now, err := running(r)
	if err == nil && !rev.Running {
		b.Diff = diffOf(now, rev.Text, "in use", fmt.Sprintf("revision %d", rev.Number))
	}
	p.page(w, r, http.StatusOK, "revision", "Configuration", fmt.Sprintf("Revision %d", rev.Number), b)
}

// rollback goes back to a revision, or drops the one that waits.
func (p *Page) rollback(w http.ResponseWriter, r *request) {
	number, err := strconv.Atoi(r.PostForm.Get("revision"))
	if err != nil || number < 0 {
		p.failBy(w, r, api.Misused(errors.New("expected the number of a revision")))
		return
	}
	if _, err := api.Rollback.Ask(r.Context(), r.client, api.RollbackQuestion{Revision: number}); err != nil {
		p.failBy(w, r, err)
		return
	}
	http.Redirect(w, r.Request, "/", http.StatusSeeOther)
}

// confirm keeps the revision that waits.
func (p *Page) confirm(w http.ResponseWriter, r *request) {
	if _, err := api.Confirm.Ask(r.Context(), r.client, api.Empty{}); err != nil {
		p.failBy(w, r, err)
		return
	}
	http.Redirect(w, r.Request, "/", http.StatusSeeOther)
}
