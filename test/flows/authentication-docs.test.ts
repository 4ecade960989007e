import { testDocument } from '../support/documented-session.ts';

testDocument('docs/authentication.md');
