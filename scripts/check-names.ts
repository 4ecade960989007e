/**
 * Checks names: class members that are private by the modifier `private`, which exists for the compiler alone, instead
 * of by `#`; names that several modules of src, sidecar and console/src export, although one name has one meaning; and
 * names with a term that has a standard one.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import ts from 'typescript';
import { checkTerms } from './check-names/rejected-terms.ts';

const files = execFileSync('git', ['ls-files', '*.ts', '*.tsx'], { encoding: 'utf8' })
  .split('\n')
  .filter((file) => file !== '' && !file.startsWith('proto/'));

/** Exported in several modules with the same meaning, because none of them may import the other, by reason. */
const SHARED_NAMES: Readonly<Record<string, string>> = {
  CommandRecord: 'a command in a response; the command line declares the members that it reads, the console all',
  PlanRecord: 'a plan in a response, likewise',
  StepRecord: 'a step of a plan in a response, likewise',
  Memory: 'a memory of a tenant in `proto/`, which the sidecar receives as text',
  MAX_STEPS: 'the limit of steps in a plan; the sidecar uses no module of the service',
  Log: 'a structured log; the sidecar uses no module of the service',
  isObject: 'the test for a JSON object; the sidecar uses no module of the service',
};

const isProduct = (file: string): boolean => /^(src|sidecar|console\/src)\//.test(file);

/**
 * Decision functions have the names of a chart's actions and guards, and are imported as a namespace:
 * `decisions.refuseCancel`.
 */
const isDecisionModule = (file: string): boolean =>
  /^src\/machines\/(\w+-decisions|device-administration|device-reports|plan-cognition)\.ts$/.test(file);

function report(source: ts.SourceFile, node: ts.Node, message: string): void {
  const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
  console.log(`${source.fileName}:${line + 1} ${message}`);
  process.exitCode = 1;
}

/** A constructor cannot have a name with `#`. */
const isPrivateByModifier = (node: ts.Node): boolean =>
  ts.isClassElement(node) &&
  !ts.isConstructorDeclaration(node) &&
  ts.canHaveModifiers(node) &&
  (ts.getModifiers(node) ?? []).some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword);

function checkPrivateMembers(source: ts.SourceFile): void {
  const visit = (node: ts.Node): void => {
    if (isPrivateByModifier(node)) report(source, node, 'use a name with # instead of the modifier private');
    ts.forEachChild(node, visit);
  };
  visit(source);
}

interface ExportedDeclaration {
  source: ts.SourceFile;
  node: ts.Node;
}

const isExported = (statement: ts.Statement): boolean =>
  ts.canHaveModifiers(statement) &&
  (ts.getModifiers(statement) ?? []).some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword);

function namesOf(statement: ts.Statement): ts.Node[] {
  if (ts.isVariableStatement(statement)) return statement.declarationList.declarations.map(({ name }) => name);
  if (ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement)) return [statement.name];
  if (ts.isFunctionDeclaration(statement) || ts.isClassDeclaration(statement))
    return statement.name ? [statement.name] : [];
  return [];
}

/** Declarations by name, the first of each module: a module may declare a value and its type, or overloads. */
const declarations = new Map<string, ExportedDeclaration[]>();

function collectExports(source: ts.SourceFile): void {
  for (const statement of source.statements) {
    if (!isExported(statement)) continue;
    const isType = ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement);
    if (!isType && isDecisionModule(source.fileName)) continue;
    for (const node of namesOf(statement)) {
      const known = declarations.get(node.getText(source)) ?? [];
      if (!known.some((one) => one.source === source)) known.push({ source, node });
      declarations.set(node.getText(source), known);
    }
  }
}

function checkSharedNames(): void {
  for (const [name, found] of declarations) {
    const modules = found.map(({ source }) => source.fileName).join(', ');
    if (found.length > 1 && !Object.hasOwn(SHARED_NAMES, name)) {
      for (const { source, node } of found)
        report(source, node, `${name} is exported by ${modules}: rename or import it`);
    }
  }
  for (const name of Object.keys(SHARED_NAMES)) {
    if ((declarations.get(name)?.length ?? 0) > 1) continue;
    console.log(`scripts/check-names.ts: ${name} is exported once; remove it from SHARED_NAMES`);
    process.exitCode = 1;
  }
}

for (const file of files) {
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.ESNext, true);
  checkPrivateMembers(source);
  if (!file.startsWith('scripts/')) checkTerms(source);
  if (isProduct(file)) collectExports(source);
}
checkSharedNames();
