"""results.jsonl and analysis.jsonl: schema, reading, writing."""
