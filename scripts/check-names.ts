/** Finds class members that are private by the modifier `private`, which exists for the compiler alone, instead of by `#`. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import ts from 'typescript';

const files = execFileSync('git', ['ls-files', '*.ts', '*.tsx'], { encoding: 'utf8' })
  .split('\n')
  .filter((file) => file !== '' && !file.startsWith('proto/'));

/** A constructor cannot have a name with `#`. */
const isPrivateByModifier = (node: ts.Node): boolean =>
  ts.isClassElement(node) &&
  !ts.isConstructorDeclaration(node) &&
  ts.canHaveModifiers(node) &&
  (ts.getModifiers(node) ?? []).some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword);

function check(file: string): void {
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.ESNext, true);
  const visit = (node: ts.Node): void => {
    if (isPrivateByModifier(node)) {
      const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
      console.log(`${file}:${line + 1} use a name with # instead of the modifier private`);
      process.exitCode = 1;
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
}

for (const file of files) check(file);
