import { describe, expect, it } from 'vitest';
import { findingsIn, wordsIn } from '../../scripts/check-language/constructions.ts';
import { readerFor } from '../../scripts/check-language/readers.ts';

/** `line kind construction` for each finding in a file. */
function findings(file: string, source: string): string[] {
  const read = readerFor(file, source);
  if (read === undefined) throw new Error(`no reader for ${file}`);
  return read(source, file).flatMap((passage) =>
    findingsIn(passage).map(({ line, kind, match }) => `${line} ${kind} ${match}`),
  );
}

const shell = ['#!/bin/bash', '# Whoever calls it,', '# nobody reads', "echo 'it says hello \\n'", 'told="$#"'].join(
  '\n',
);

describe.each<{ file: string; found: [source: string, findings: string[]]; plain: string }>([
  {
    file: 'src/main.ts',
    found: [
      `// nobody reads it\nconst text = \`the store\n said \${words} times\`;\n/* one\n * whoever reads */`,
      ['1 prose nobody', '3 text said', '5 prose whoever'],
    ],
    plain: `// the list of \`nobody\`\nconst words = { told: \`\${said.words} is in use\`, key: 'said' };`,
  },
  {
    file: 'page.tsx',
    found: ['const a = <p>nobody is here</p>;', ['1 text nobody']],
    plain: 'const nobody = <p title={told}>No devices</p>;',
  },
  { file: 'page.js', found: ['// Who reads it', ['1 prose Who']], plain: "import { nobody } from './said.js';" },
  {
    file: 'test/a.test.ts',
    found: ["it('tells the time of the clock', () => {});", ['1 text tells']],
    plain: "send('tell me the time');",
  },
  {
    file: 'src/migration.ts',
    found: ['const sql = `\ncreate table who (id uuid); -- nobody writes\n`;', ['2 prose nobody']],
    plain: 'const sql = `\nselect id as nobody from told -- the ids\n`;',
  },
  {
    file: 'dump.sql',
    found: ['/* Whatever\nis said */', ['1 prose Whatever', '2 prose said']],
    plain: "values ('-- told');",
  },
  {
    file: 'docs/page.md',
    found: [
      '# What it does\n\nA paragraph. Any\nmore text of\nits own.\n\n- whoever\n\n| a | Nobody |\n\n```sh\nask # nobody\n```',
      [
        '1 prose What',
        '3 prose Any\nmore',
        '4 prose of\nits own',
        '7 prose whoever',
        '9 prose Nobody',
        '12 prose nobody',
      ],
    ],
    plain:
      'Run `told\nsays` or [it](nobody.md#told):\n\n    nobody\n\n```console\n$ ask # said\nnobody\n```\n\nIs it done? What next?',
  },
  {
    file: 'flows.yaml',
    found: [
      "name: told # nobody reads\ndescription: >-\n  The user\n  said it\nother: 1\n- summary: 'What a client does'",
      ['1 prose nobody', '4 text said', '6 text What'],
    ],
    plain: "told: 'a # nobody'\nurl: http://told#said\nrun: |\n  # nobody\n  told\nanswer: nobody",
  },
  { file: 'rules.yml', found: ['# of which', ['1 prose of which']], plain: '# The rules' },
  {
    file: 'run',
    found: [shell, ['2 prose Whoever', '3 prose nobody', '4 text says']],
    plain: '#!/bin/bash\nask "$#" | told',
  },
  {
    file: 'try.sh',
    found: ['printf "%s of them said\\n"', ['1 text said']],
    plain: 'node -e "\n  const [told] = nobody;\n"',
  },
  { file: 'nginx.conf', found: ['# nobody', ['1 prose nobody']], plain: 'log_format told \'"$nobody"\';' },
  {
    file: '_helpers.tpl',
    found: ['{{- /* nobody */}}\n{{/* whoever */}}', ['1 prose nobody', '2 prose whoever']],
    plain: '{{ include "nobody.told" . }}',
  },
  {
    file: 'NOTES.txt',
    found: ['The devices said {{ .Values.told }} so.\n  nobody is here', ['1 text said', '2 text nobody']],
    plain: '{{- if .Values.said }}\nThe {{ .Values.told }} is ready.\n{{- end }}',
  },
  { file: 'Dockerfile', found: ['# nobody', ['1 prose nobody']], plain: 'RUN told' },
  { file: '.gitignore', found: ['# nobody', ['1 prose nobody']], plain: 'told' },
  {
    file: 'device.py',
    found: [
      '"""The client.\n\nNobody reads."""\nraise ValueError("it was told so")  # whoever',
      ['3 prose Nobody', '4 text told', '4 prose whoever'],
    ],
    plain: 'said = told["# nobody"]',
  },
  {
    file: 'page.css',
    found: ['/* nobody */ a::after { content: "nobody is here"; }', ['1 prose nobody', '1 text nobody']],
    plain: '.told { color: red; }',
  },
  {
    file: 'runtime.proto',
    found: ['// The node. Who\n// said it', ['1 prose Who', '2 prose said']],
    plain: 'string nobody = 1; /* id */',
  },
  {
    file: 'index.html',
    found: [
      '<!-- whoever -->\n<p title="nobody is here">\n  It was said again</p>',
      ['1 prose whoever', '2 text nobody', '3 text said'],
    ],
    plain: '<script>nobody says it</script><p class="nobody is told">Devices</p>',
  },
  { file: 'icon.svg', found: ['<title>Nobody is here</title>', ['1 text Nobody']], plain: '<path d="told"/>' },
  {
    file: 'dashboard.json',
    found: ['{\n"title": "What a device\\" says" }', ['2 text What', '2 text says']],
    plain: '{ "query": "nobody says it", "title": "Devices that are online" }',
  },
])('a file such as $file', ({ file, found: [source, expected], plain }) => {
  it('has findings with their lines', () => {
    expect(findings(file, source).sort()).toEqual(expected.sort());
  });

  it('has none in code and plain English', () => {
    expect(findings(file, plain)).toEqual([]);
  });
});

it('a kind of file without a reader is unknown', () => {
  expect(readerFor('a.unknown', '')).toBeUndefined();
});

it('1,000 words is an amount, not a finding', () => {
  expect(findings('a.md', 'At most 1,000 words. In other words.')).toEqual(['1 prose words']);
});

it('numbers and dashes are not counted', () => {
  expect(wordsIn('Two words, 1 number\n– and a dash')).toBe(6);
});
