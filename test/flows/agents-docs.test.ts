import { testDocument } from '../support/documented-session.ts';

testDocument('docs/agents.md');
