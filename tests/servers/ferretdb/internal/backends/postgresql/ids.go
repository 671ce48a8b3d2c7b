package postgresql

import (
	"fmt"

	"github.com/FerretDB/FerretDB/internal/backends/postgresql/metadata"
	"github.com/FerretDB/FerretDB/internal/handler/sjson"
	"github.com/FerretDB/FerretDB/internal/types"
	"github.com/FerretDB/FerretDB/internal/util/must"
)

// filterIDs returns the SQL filter for _id: "text" and _id: {$in: ["text", ...]}, and nothing for any other condition.
func filterIDs(p *metadata.Placeholder, key string, value any) (string, []any) {
	if key != "_id" {
		return "", nil
	}
	var ids []string
	switch value := value.(type) {
	case string:
		ids = append(ids, encodeID(value))
	case *types.Array:
		for i := range value.Len() {
			id, ok := must.NotFail(value.Get(i)).(string)
			if !ok {
				return "", nil
			}
			ids = append(ids, encodeID(id))
		}
	default:
		return "", nil
	}
	return fmt.Sprintf(`%s = ANY(%s::text[]::jsonb[])`, metadata.IDColumn, p.Next()), []any{ids}
}

func encodeID(id string) string {
	return string(must.NotFail(sjson.MarshalSingleValue(id)))
}
