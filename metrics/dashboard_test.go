package metrics

import (
	"encoding/json"
	"testing"
)

// dashboard is the part of Grafana's model that people read.
type dashboard struct {
	Editable   bool `json:"editable"`
	Templating struct {
		List []struct{ Name, Type string } `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Datasource               struct{ UID string }
		FieldConfig              struct{ Defaults struct{ Unit string } }
		GridPos                  struct{ H, W, X, Y int }
		Targets                  []struct{ Expr string }
	} `json:"panels"`
}

func TestDashboardCanBeImportedAndRead(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal([]byte(page(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	if d.Editable || len(d.Templating.List) == 0 || d.Templating.List[0].Type != "datasource" {
		t.Errorf("want a dashboard that is not editable and asks for its data source first: %v", d.Templating)
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: id %d is taken", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s runs out of the grid", p.Title)
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%s: want a description, the datasource variable and a query", p.Title)
		}
		if p.FieldConfig.Defaults.Unit == "" && p.Type != "state-timeline" {
			t.Errorf("%s has no unit", p.Title)
		}
	}
}

// TestDashboardShowsEveryGoldenMetric and the tier, switch and spool beside them.
func TestDashboardShowsWhatMatters(t *testing.T) {
	names := mentions(page(t, dashboardFile))
	shown := map[string]bool{}
	for _, n := range names {
		shown[n] = true
	}
	for _, m := range Table() {
		if !shown[m.Name] && m.Name != eventsWritten && m.Name != eventsFailed && m.Name != eventsDead && m.Name != spoolWritable && m.Name != spoolDamaged && m.Name != spoolTorn {
			t.Errorf("no panel shows %s", m.Name)
		}
	}
}
