// SPDX-License-Identifier: Apache-2.0

package bom

import "minne/internal/model/config"

// Sheet is a file of parts. Watts are at the router's supply, prices in one currency; percentages
// are from 0 to 100.
type Sheet struct {
	Version   int             `yaml:"version" doc:"Version of this file's format." enum:"1" required:"true"`
	Name      string          `yaml:"name" doc:"What is built." required:"true"`
	Year      int             `yaml:"year" doc:"Year of the prices." min:"1990" max:"2100"`
	Currency  string          `yaml:"currency" doc:"Currency of the prices."`
	Source    string          `yaml:"source" doc:"Where the figures come from." lines:"true"`
	Ports     int             `yaml:"ports" doc:"Network ports that the price pays for." min:"1" max:"1000"`
	Parts     []Part          `yaml:"parts" doc:"What is bought." required:"true"`
	Measured  *Measured       `yaml:"measured" doc:"What a meter and a generator measured on the whole router; it takes precedence over the sum of the parts."`
	LoadShare *config.Decimal `yaml:"load-share" doc:"Percent of the day at full load; the rest is idle."`
	Others    []Other         `yaml:"others" doc:"Machines to compare with."`
	Supply    *Supply         `yaml:"supply" doc:"A battery and a solar panel for it."`
}

// Part is a line of the sheet. Watts and price are those of one piece.
type Part struct {
	Part     string          `yaml:"part" doc:"What it is." required:"true"`
	Quantity *int            `yaml:"quantity" doc:"How many." min:"1" max:"10000"`
	Price    *config.Decimal `yaml:"price" doc:"Price of one."`
	Idle     *config.Decimal `yaml:"idle" doc:"Watts of one without traffic."`
	Load     *config.Decimal `yaml:"load" doc:"Watts of one at full load; without it, those of idle."`
	Note     string          `yaml:"note" doc:"Free text."`
}

// Measured is what the whole router was measured at.
type Measured struct {
	Idle *config.Decimal `yaml:"idle" doc:"Watts without traffic."`
	Load *config.Decimal `yaml:"load" doc:"Watts at full load."`
	Mpps *config.Decimal `yaml:"mpps" doc:"Millions of packets a second at full load."`
	Mbit *config.Decimal `yaml:"mbit" doc:"Mbit/s at full load."`
	With string          `yaml:"with" doc:"How it was measured." lines:"true"`
}

// Other is a machine to compare with.
type Other struct {
	Name  string          `yaml:"name" doc:"What it is." required:"true"`
	Watts *config.Decimal `yaml:"watts" doc:"Its watts."`
	Price *config.Decimal `yaml:"price" doc:"Its price, in the sheet's currency."`
}

// Supply is how the router lives away from the grid.
type Supply struct {
	Autonomy  config.Decimal  `yaml:"autonomy" doc:"Days that the battery alone keeps the router running." required:"true"`
	Voltage   *config.Decimal `yaml:"voltage" doc:"Volts of the battery."`
	Converter *config.Decimal `yaml:"converter" doc:"Efficiency in percent of the converter between battery and router. Absent: there is none."`
	Battery   Battery         `yaml:"battery" doc:"The battery." required:"true"`
	Panel     *Panel          `yaml:"panel" doc:"The solar panel."`
	Cables    []Cable         `yaml:"cables" doc:"Cables whose cross-section is sought."`
}

// Battery is the battery's kind and how it is treated.
type Battery struct {
	Chemistry string          `yaml:"chemistry" doc:"Kind of battery." enum:"lead-acid,lifepo4" required:"true"`
	Coldest   config.Decimal  `yaml:"coldest" doc:"Degrees Celsius of the battery in the coldest week." required:"true"`
	Discharge *config.Decimal `yaml:"discharge" doc:"Percent of its charge that may be taken."`
	Ageing    *config.Decimal `yaml:"ageing" doc:"Percent of its capacity that it still has when it is to be replaced."`
}

// Panel is where the panel stands. The sky is one of clearness, irradiation, clear-sky.
type Panel struct {
	Latitude    config.Decimal   `yaml:"latitude" doc:"Degrees, south negative." required:"true"`
	Tilt        *config.Decimal  `yaml:"tilt" doc:"Degrees from the horizontal, towards the equator; without it, the tilt that is best for the worst month."`
	Clearness   []config.Decimal `yaml:"clearness" doc:"Monthly clearness index, January to December." ordered:"true"`
	Irradiation []config.Decimal `yaml:"irradiation" doc:"kWh/m² on the horizontal in each month, as PVGIS lists them." ordered:"true"`
	ClearSky    bool             `yaml:"clear-sky" doc:"Calculate without clouds."`
	Altitude    config.Decimal   `yaml:"altitude" doc:"Metres above the sea, for the clear sky."`
	Regulator   *config.Decimal  `yaml:"regulator" doc:"Efficiency of the charge regulator in percent."`
	Performance *config.Decimal  `yaml:"performance" doc:"Percent of its rated watts that the panel gives in heat, dirt and age."`
	Recharge    *config.Decimal  `yaml:"recharge" doc:"Days in which an empty battery is to be full again while the router runs."`
}

// Cable is a pair of copper wires.
type Cable struct {
	Name    string          `yaml:"name" doc:"From where to where." required:"true"`
	Carries string          `yaml:"carries" doc:"What flows: the router's load, or what the panel gives." enum:"load,panel" required:"true"`
	Length  config.Decimal  `yaml:"length" doc:"Metres, in one direction." required:"true"`
	Drop    *config.Decimal `yaml:"drop" doc:"Percent of the voltage that may be lost."`
	Voltage *config.Decimal `yaml:"voltage" doc:"Volts on it."`
}
