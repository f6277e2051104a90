package cli

import (
	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/engine"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// bagOptions returns the options of --bag and --bag-info; nil without --bag.
func (f *copyFlags) bagOptions() (*engine.BagOptions, error) {
	if !f.bag {
		if len(f.bagInfo) > 0 {
			return nil, usagef("--bag-info needs --bag")
		}
		return nil, nil //nolint:nilnil // there is no bag
	}
	o := &engine.BagOptions{Agent: bag.Agent + " " + readBuild().Version + " <https://github.com/seed65876f4f/sealift>"}
	for _, text := range f.bagInfo {
		field, err := bag.ParseField(text)
		if err != nil {
			return nil, usagef("--bag-info %s: %s", quote.Name(text), err)
		}
		o.Info = append(o.Info, field)
	}
	return o, nil
}
