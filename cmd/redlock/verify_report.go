package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/redlock-go/redlock/internal/history"
	historypage "github.com/redlock-go/redlock/internal/history/report"
)

// A verifyReport is the file of --report; "": none.
type verifyReport string

// free returns an error if the file cannot be made, before anything runs.
func (f verifyReport) free() error {
	if f == "" {
		return nil
	}
	if err := historypage.Free(string(f)); err != nil {
		return usageErrorf("--report: %w", err)
	}
	return nil
}

// conclude prints what a history shows, and writes the report. what is the run that made the history.
func (f verifyReport) conclude(h *history.History, what string, out io.Writer) error {
	v := judge(h)
	err := printVerdict(v, out)
	if f == "" {
		return err
	}
	if failed := historypage.Create(string(f), v.page(h, what)); failed != nil {
		return errors.Join(err, fmt.Errorf("--report: %w", failed))
	}
	fmt.Fprintf(out, "\nreport: %s\n", string(f))
	return err
}

// page returns what the report shows.
func (v *verdict) page(h *history.History, what string) historypage.Page {
	p := historypage.Page{
		Title: "redlock verify", Source: what, Ops: h.Snapshot(), Stopped: make(map[int][]history.Span), Kinds: make(map[int]string),
		Violations: v.violations, Facts: v.facts(), Counted: v.counted(), NotShown: notShown,
	}
	table := v.table()
	p.Table = append(p.Table, table.head)
	for _, r := range table.rows {
		p.Table = append(p.Table, r.cells)
	}
	for _, o := range p.Ops {
		p.Stopped[o.Client], p.Kinds[o.Client] = nil, o.How
	}
	for client := range p.Stopped {
		p.Stopped[client] = h.Stopped(client)
	}
	for _, f := range h.Faults() {
		p.Faults = append(p.Faults, historypage.Fault{Name: f.Name, Client: f.Client, Span: f.Span})
	}
	return p
}
