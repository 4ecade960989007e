import { testDocument } from '../support/documented-session.ts';

testDocument('docs/getting-started.md', {
  env: { SIDECAR: 'embedded' },
  isReady: ({ services }) => services.sidecar.connected(),
  // The commands of the README need devices, which this session has.
  followedBy: 'README.md',
});
