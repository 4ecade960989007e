// Which layer may import which: a layer is a folder, with the file of the same name beside it, and sees only what is
// listed after it.
const MAY_IMPORT = {
  main: ['edges', 'operations', 'services', 'actors', 'machines', 'store', 'config', 'protocol', 'domain'],
  cli: ['main', 'device', 'protocol', 'domain', 'config'],
  device: ['protocol', 'domain'],
  edges: ['operations', 'services', 'actors', 'machines/(outputs|[a-z]+-types)', 'protocol', 'domain'],
  operations: ['services', 'actors', 'machines', 'store/contract', 'protocol', 'domain'],
  services: ['store/contract', 'protocol', 'domain'],
  actors: ['machines', 'store/contract', 'domain'],
  store: ['machines/outputs', 'domain'],
  machines: ['domain'],
  config: ['domain'], // config.ts and its parts; the other layers get their settings from main
  protocol: ['domain'],
  domain: [],
};
const layers = Object.entries(MAY_IMPORT).map(([layer, allowed]) => ({
  name: `${layer}-may-import: ${allowed.join(', ') || 'nothing'}`,
  severity: 'error',
  from: { path: `^src/${layer}(/|\\.ts$)` },
  to: { path: '^src/', pathNot: [layer, ...allowed].map((target) => `^src/${target}(/|\\.ts$)`) },
}));
const onlyFrom = (home, drivers) => ({
  name: `only ${home} talks to ${drivers.join(', ')}`,
  severity: 'error',
  from: { path: '^src/', pathNot: `^src/${home}/` },
  to: { path: `node_modules/(${drivers.join('|')})/` },
});

module.exports = {
  forbidden: [
    ...layers,
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'rules-are-pure',
      severity: 'error',
      comment: 'domain and machines compute; node:crypto hashes and verifies, so it may stay',
      from: { path: '^src/(domain|machines|protocol)/' },
      to: {
        dependencyTypes: ['core', 'npm'],
        pathNot: ['^(node:)?crypto$', 'node_modules/(xstate|zod|canonicalize|semver)/'],
      },
    },
    {
      name: 'edges-do-not-know-each-other',
      severity: 'error',
      from: { path: '^src/edges/([^/]+)/' },
      to: { path: '^src/edges/', pathNot: '^src/edges/($1|shared)/' },
    },
    {
      name: 'only-main-assembles',
      severity: 'error',
      from: { pathNot: '^(src/main(/|\\.ts$)|src/cli/|test/|bench/)' },
      to: { path: '^src/main(/|\\.ts$)' },
    },
    {
      name: 'the-console-is-a-client',
      severity: 'error',
      comment: 'it runs rules of the domain, and knows the shapes of answers; the service knows nothing of it',
      from: { path: '^console/' },
      to: { path: '^src/', pathNot: '^src/domain/', dependencyTypesNot: ['type-only'] },
    },
    { name: 'nobody-imports-the-console', severity: 'error', from: { path: '^src/' }, to: { path: '^console/' } },
    onlyFrom('main', ['@opentelemetry']),
    onlyFrom('store', ['pg', '@electric-sql/pglite', 'ioredis']),
    {
      name: 'every-folder-is-a-layer',
      severity: 'error',
      comment: 'a new folder under src takes its place in MAY_IMPORT first',
      from: {
        path: '^src/',
        pathNot: [...Object.keys(MAY_IMPORT).map((layer) => `^src/${layer}/`), '^src/(main|config)\\.ts$'],
      },
      to: {},
    },
    onlyFrom('edges/mqtt', ['aedes']),
    onlyFrom('(edges/mqtt|device)', ['mqtt']),
    onlyFrom('edges/rest', ['express']),
    onlyFrom('edges/shared/oidc', ['openid-client']),
    onlyFrom('edges/grpc', ['@grpc/grpc-js', '@grpc/proto-loader']),
    {
      name: 'only edges/grpc speaks to the sidecar',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/edges/grpc/' },
      to: { path: '^proto/' },
    },
    onlyFrom('edges/graphql', ['graphql', 'graphql-http', 'graphql-ws', 'dataloader']),
    onlyFrom('edges/mcp', ['@modelcontextprotocol']),
    {
      name: 'the-service-does-not-know-the-sidecar',
      severity: 'error',
      comment: 'another process, which any other may take the place of',
      from: { path: '^src/' },
      to: { path: '^sidecar/' },
    },
    {
      name: 'the-sidecar-knows-only-the-contract',
      severity: 'error',
      from: { path: '^sidecar/' },
      to: {
        pathNot: [
          '^sidecar/',
          '^proto/gen/',
          'node_modules/(@bufbuild/protobuf|@grpc/grpc-js)/',
          '^(stream|timers/promises)$',
        ],
      },
    },
    {
      name: 'planners-only-think',
      severity: 'error',
      comment: 'the rules compute; the language model speaks to its endpoint; neither knows the stream',
      from: { path: '^sidecar/(rules|language-model)/([^/]+)' },
      to: {
        pathNot: [
          '^sidecar/$1/',
          '^sidecar/(planner-types|json-schema|compensation|summary|direct-action)\\.ts$',
          'node_modules/@bufbuild/protobuf/',
          '^timers/promises$',
        ],
      },
    },
  ],
  options: {
    tsPreCompilationDeps: true, // a cycle of types is still a cycle for the reader
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      extensions: ['.ts', '.tsx', '.js', '.json'],
    },
  },
};
