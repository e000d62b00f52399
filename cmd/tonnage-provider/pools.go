package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/pools"
)

func newPools(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pools",
		Short: "Look at files of pools, and make the instance types of one",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPoolsValidate(s), newPoolsImport(s), &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of pools files", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := s.out.Write(pools.Schema)
			return err
		},
	})
	return cmd
}

func newPoolsValidate(s streams) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:     "validate",
		Short:   "Say what is wrong with a file of pools, or what it offers",
		Example: "  tonnage-provider pools validate -f pools.yaml",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			if path == "" {
				return badInput(errors.New("-f is missing; name the file of the pools"))
			}
			f, err := pools.ReadChecked(path, checkPools)
			if err != nil {
				return badInput(err)
			}
			for i := range f.Pools {
				p := &f.Pools[i]
				fmt.Fprintf(s.out, "pool %s: driver %s, %s at most, %s\n", p.Name, p.Driver, plural(p.Machines, "machine"), plural(len(p.Offers), "offer"))
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&path, "file", "f", "", "file of the pools")
	return cmd
}

// importFlags are the flags of pools import, as given.
type importFlags struct {
	catalogue, provider, region string
	types                       string
	prices                      string
	zones, match                []string
	reserve                     map[string]string
	out                         string
}

func newPoolsImport(s streams) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Make a types file of a catalogue or of another types file, with the prices of a list",
		Long: `Import writes instance types for the typesFile of a pool. Where it runs again, from cron for
instance, with a new catalogue or price list, a provider that serves the file takes the new prices over.

A catalogue is CSV with the columns provider, region, instance_type, arch, vcpu, memory_mib, gpu_count,
gpu_model, accel_count, alloc_cpu_milli, alloc_memory_mib, alloc_pods, on_demand_usd_h, spot_usd_h,
interruption_bucket and zones. A price list is CSV with the columns instance_type, capacity_type,
price_per_hour and, where wanted, zone and interruption_probability, or the same in JSON.`,
		Example: `  tonnage-provider pools import --catalogue instances.csv --provider aws --region us-east-1 \
    --zones us-east-1a,us-east-1b --match 'm6i.*,r6i.*' -o types.yaml
  tonnage-provider pools import --types types.yaml --prices prices.csv -o types.yaml`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return f.run(s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.catalogue, "catalogue", "", "catalogue to read, CSV; - = standard input")
	flags.StringVar(&f.provider, "provider", "", "with a catalogue: the provider whose rows are read")
	flags.StringVar(&f.region, "region", "", "with a catalogue: the region whose rows are read")
	flags.StringSliceVar(&f.zones, "zones", nil, "with a catalogue: zones of types for which it names none")
	flags.StringSliceVar(&f.match, "match", nil, "with a catalogue: patterns of names, as in m6i.*; none = all types")
	flags.StringToStringVar(&f.reserve, "reserve", nil, "with a catalogue: what a node keeps for itself where nothing allocatable is said, as in cpu=200m,memory=1Gi")
	flags.StringVar(&f.types, "types", "", "types file to begin with, in place of a catalogue")
	flags.StringVar(&f.prices, "prices", "", "price list to put over the prices, CSV or JSON; - = standard input")
	flags.StringVarP(&f.out, "output", "o", "", "file to write; it is replaced as a whole; empty = standard output")
	return cmd
}

func (f *importFlags) run(s streams) error {
	types, err := f.read(s)
	if err != nil {
		return badInput(err)
	}
	if f.prices != "" {
		in, err := openInput(s, f.prices)
		if err != nil {
			return badInput(err)
		}
		defer in.Close()
		list, err := pools.ReadPrices(in)
		if err != nil {
			return badInput(fmt.Errorf("%s: %w", f.prices, err))
		}
		if unknown := pools.ApplyPrices(types, list); unknown > 0 {
			fmt.Fprintf(s.err, "%d of %d prices are for types that are not there\n", unknown, len(list))
		}
	}
	text := pools.AppendTypes(nil, types)
	if f.out == "" {
		_, err := s.out.Write(text)
		return err
	}
	// A provider that reads the file meanwhile sees the old one or the new one.
	part := f.out + ".part"
	if err := errors.Join(os.WriteFile(part, text, 0o644)); err != nil {
		return badInput(err)
	}
	if err := os.Rename(part, f.out); err != nil {
		return badInput(err)
	}
	fmt.Fprintf(s.err, "%d types written to %s\n", len(types), f.out)
	return nil
}

// read reads the types to begin with.
func (f *importFlags) read(s streams) ([]pools.Type, error) {
	switch {
	case (f.catalogue == "") == (f.types == ""):
		return nil, errors.New("give either --catalogue or --types")
	case f.types != "":
		return pools.ReadTypes(f.types)
	case f.provider == "" || f.region == "":
		return nil, errors.New("--provider and --region are missing; they say which rows of the catalogue are read")
	}
	c := pools.Catalogue{Provider: f.provider, Region: f.region, Zones: f.zones, Match: f.match}
	var amounts []model.Amount
	for name, text := range f.reserve {
		v, err := model.ParseQuantity(name, text)
		if err != nil {
			return nil, fmt.Errorf("--reserve: %s=%s: %w", name, text, err)
		}
		amounts = append(amounts, model.Amount{Name: name, Value: v})
	}
	c.Reserve = model.NewResources(amounts...)
	in, err := openInput(s, f.catalogue)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	types, skipped, err := pools.ReadCatalogue(in, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.catalogue, err)
	}
	if len(skipped) > 0 {
		fmt.Fprintf(s.err, "%d types are left out:\n  %s\n", len(skipped), strings.Join(skipped, "\n  "))
	}
	return types, nil
}

type nopCloser struct{ io.Reader }

func (nopCloser) Close() error { return nil }
