// Writes the GraphQL schema to docs/schema.graphql.
import { writeFileSync } from 'node:fs';
import { printSchema } from 'graphql';
import { makeSchema } from '../src/edges/graphql/schema.ts';

writeFileSync(new URL('../docs/schema.graphql', import.meta.url), `${printSchema(makeSchema())}\n`);
