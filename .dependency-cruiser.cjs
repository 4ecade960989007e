// The layers that each layer may import. A layer is a folder under src, with the file of the same name next to it.
const MAY_IMPORT = {
  main: ['edges', 'operations', 'services', 'actors', 'machines', 'store', 'config', 'protocol', 'domain'],
  cli: ['main', 'device', 'protocol', 'domain', 'config'],
  device: ['protocol', 'domain'],
  edges: ['operations', 'services', 'actors', 'machines/(outputs|[a-z]+-types)', 'protocol', 'domain'],
  operations: ['services', 'actors', 'machines', 'store/contract', 'protocol', 'domain'],
  services: ['store/contract', 'protocol', 'domain'],
  actors: ['machines', 'store/contract', 'domain'],
  store: ['machines/(outputs|actor-columns)', 'domain'],
  machines: ['domain'],
  config: ['domain'], // the other layers receive their settings from main
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
  name: `only-${home}-imports: ${drivers.join(', ')}`,
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
      comment:
        'domain, machines and protocol only compute; node:crypto is allowed for hashes and signatures, node:zlib for checksums',
      from: { path: '^src/(domain|machines|protocol)/' },
      to: {
        dependencyTypes: ['core', 'npm'],
        pathNot: ['^(node:)?(crypto|zlib)$', 'node_modules/(xstate|zod|canonicalize|semver)/'],
      },
    },
    {
      name: 'edges-do-not-import-each-other',
      severity: 'error',
      from: { path: '^src/edges/([^/]+)/' },
      to: { path: '^src/edges/', pathNot: '^src/edges/($1|shared)/' },
    },
    {
      name: 'only-the-command-line-imports-main',
      severity: 'error',
      from: { pathNot: '^(src/main(/|\\.ts$)|src/cli/|test/|bench/)' },
      to: { path: '^src/main(/|\\.ts$)' },
    },
    {
      name: 'console-imports-types-and-domain-only',
      severity: 'error',
      comment: 'the console is a client: it uses rules of the domain and the types of responses',
      from: { path: '^console/' },
      to: { path: '^src/', pathNot: '^src/domain/', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'src-does-not-import-the-pages',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^(console|reference)/' },
    },
    onlyFrom('main', ['@opentelemetry']),
    onlyFrom('store', ['pg', '@electric-sql/pglite', 'ioredis']),
    {
      name: 'every-folder-is-a-layer',
      severity: 'error',
      comment: 'add a new folder under src to MAY_IMPORT first',
      from: {
        path: '^src/',
        pathNot: [...Object.keys(MAY_IMPORT).map((layer) => `^src/${layer}/`), '^src/(main|config)\\.ts$'],
      },
      to: {},
    },
    onlyFrom('edges/mqtt', ['aedes']),
    onlyFrom('(edges/mqtt|device)', ['mqtt']),
    onlyFrom('edges/(rest|console)', ['express']),
    onlyFrom('edges/shared/oidc', ['openid-client']),
    onlyFrom('edges/grpc', ['@grpc/grpc-js', '@grpc/proto-loader']),
    {
      name: 'only-edges/grpc-imports-the-sidecar-contract',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/edges/grpc/' },
      to: { path: '^proto/' },
    },
    onlyFrom('edges/graphql', ['graphql', 'graphql-http', 'graphql-ws', 'dataloader']),
    onlyFrom('edges/mcp', ['@modelcontextprotocol']),
    {
      name: 'src-does-not-import-the-sidecar',
      severity: 'error',
      comment: 'the sidecar is a separate process, and can be replaced by another implementation',
      from: { path: '^src/' },
      to: { path: '^sidecar/' },
    },
    {
      name: 'sidecar-imports-only-the-contract-and-the-back-off',
      severity: 'error',
      from: { path: '^sidecar/' },
      to: {
        pathNot: [
          '^sidecar/',
          '^proto/gen/',
          '^src/domain/backoff\\.ts$',
          'node_modules/(@bufbuild/protobuf|@grpc/grpc-js)/',
          '^(crypto|net|stream|timers/promises)$',
        ],
      },
    },
    {
      name: 'the-device-library-imports-only-mqtt',
      severity: 'error',
      comment:
        '@twinkeep/device contains src/device without the simulated homes, with what that imports, mqtt and canonicalize',
      from: { path: '^src/device/', pathNot: '^src/device/homes/' },
      to: {
        path: '^src/device/homes/|node_modules/',
        pathNot: 'node_modules/(mqtt|@types/node)/',
      },
    },
    {
      name: 'planners-do-not-import-the-stream',
      severity: 'error',
      comment: 'the rules compute, the language model calls its endpoint; neither uses the stream to the service',
      from: { path: '^sidecar/(rules|language-model)/([^/]+)' },
      to: {
        pathNot: [
          '^sidecar/$1/',
          '^sidecar/(planner-types|json-schema|compensation|summary|direct-action)\\.ts$',
          '^src/domain/backoff\\.ts$',
          'node_modules/@bufbuild/protobuf/',
          '^timers/promises$',
        ],
      },
    },
  ],
  options: {
    tsPreCompilationDeps: true, // type-only imports count as cycles too
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      extensions: ['.ts', '.tsx', '.js', '.json'],
    },
  },
};
