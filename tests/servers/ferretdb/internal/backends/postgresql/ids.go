package postgresql

import (
	"fmt"

	"github.com/FerretDB/FerretDB/internal/backends/postgresql/metadata"
	"github.com/FerretDB/FerretDB/internal/handler/sjson"
	"github.com/FerretDB/FerretDB/internal/types"
	"github.com/FerretDB/FerretDB/internal/util/must"
)

// filterIDs returns the SQL filter for {_id: {$in: [...]}} over strings, and nothing for any other condition.
func filterIDs(p *metadata.Placeholder, key string, value any) (string, []any) {
	array, ok := value.(*types.Array)
	if key != "_id" || !ok {
		return "", nil
	}
	ids := make([]string, array.Len())
	for i := range ids {
		id, ok := must.NotFail(array.Get(i)).(string)
		if !ok {
			return "", nil
		}
		ids[i] = string(must.NotFail(sjson.MarshalSingleValue(id)))
	}
	return fmt.Sprintf(`%s = ANY(%s::text[]::jsonb[])`, metadata.IDColumn, p.Next()), []any{ids}
}
