import { globSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

/** A Map, Set, LRU cache or array that outlives the call that created it. */
export interface Collection {
  /** Path below `src` and name, such as `actors/watches.ts byDevice`. */
  at: string;
  /** True if a function called `sizes` in the same file reads its size. */
  gauged: boolean;
}

const src = fileURLToPath(new URL('../../src/', import.meta.url));
/** Other programs, which do not run in the process of the service. */
const OTHER_PROGRAMS = /^(cli|device)\//;
const CLASSES = /^(Map|Set|Array|LRUCache)$/;
const MUTATORS = /^(add|clear|delete|pop|push|set|shift|splice|unshift)$/;

export const sourceFiles = (): ts.SourceFile[] =>
  globSync('**/*.ts', { cwd: src })
    .filter((path) => !OTHER_PROGRAMS.test(path))
    .sort()
    .map((path) => ts.createSourceFile(src + path, readFileSync(src + path, 'utf8'), ts.ScriptTarget.Latest, true));

/**
 * Collections in fields of classes, in module constants that the module changes or exports, and in variables of a
 * function that its inner functions change, except callbacks that are called immediately (as by `forEach`). Collections
 * declared read-only, and WeakMaps, whose entries end with their keys, are left out.
 */
export function longLived(file: ts.SourceFile): Collection[] {
  const found: Collection[] = [];
  const path = relative(src, file.fileName);
  const gauged = namesIn(sizesIn(file));
  const visit = (node: ts.Node): void => {
    if (isLongLived(node)) {
      const name = node.name.getText(file).replace(/^#/, '');
      found.push({ at: `${path} ${name}`, gauged: gauged.has(name) });
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

/** Names that a file's `sizes` functions report. */
export function sizeNames(file: ts.SourceFile): string[] {
  const names: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isPropertyAssignment(node) || ts.isShorthandPropertyAssignment(node)) names.push(node.name.getText(file));
    ts.forEachChild(node, visit);
  };
  for (const one of sizesIn(file)) ts.forEachChild(one, visit);
  return names;
}

type Declaration = ts.PropertyDeclaration | ts.VariableDeclaration;

function isLongLived(node: ts.Node): node is Declaration {
  if (ts.isPropertyDeclaration(node)) return holdsCollection(node);
  if (!ts.isVariableDeclaration(node) || !holdsCollection(node) || !ts.isIdentifier(node.name)) return false;
  const scope = enclosingFunction(node);
  if (scope !== null) return changes(scope, node.name.text).some((change) => runsLater(change, scope));
  return changes(node.getSourceFile(), node.name.text).length > 0 || (isExported(node) && startsEmpty(node));
}

function holdsCollection({ type, initializer }: Declaration): boolean {
  if (type !== undefined && isReadOnly(type)) return false;
  return (type !== undefined && isCollectionType(type)) || (initializer !== undefined && makesCollection(initializer));
}

const startsEmpty = ({ initializer }: Declaration): boolean =>
  initializer !== undefined && !ts.isObjectLiteralExpression(initializer) && makesCollection(initializer);

const isReadOnly = (type: ts.TypeNode): boolean =>
  ts.isTypeOperatorNode(type) || (ts.isTypeReferenceNode(type) && /^Readonly(Map|Set)$/.test(type.typeName.getText()));

function isCollectionType(type: ts.TypeNode): boolean {
  if (ts.isArrayTypeNode(type)) return true;
  if (ts.isUnionTypeNode(type)) return type.types.some(isCollectionType);
  if (!ts.isTypeReferenceNode(type)) return false;
  const name = type.typeName.getText();
  return CLASSES.test(name) || (name === 'Record' && type.typeArguments?.[0]?.kind === ts.SyntaxKind.StringKeyword);
}

/** True also for collections in members of an object. */
function makesCollection(value: ts.Expression): boolean {
  if (ts.isNewExpression(value)) return CLASSES.test(value.expression.getText());
  if (ts.isArrayLiteralExpression(value)) return value.elements.length === 0;
  if (!ts.isObjectLiteralExpression(value)) return false;
  return value.properties.some((one) => ts.isPropertyAssignment(one) && makesCollection(one.initializer));
}

const enclosingFunction = (node: ts.Node): ts.Node | null => {
  for (let at = node.parent; !ts.isSourceFile(at); at = at.parent) if (ts.isFunctionLike(at)) return at;
  return null;
};

const isExported = (node: ts.VariableDeclaration): boolean =>
  ts.isVariableStatement(node.parent.parent) &&
  (node.parent.parent.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) ?? false);

/** Calls that change the content of `name`, and assignments to it. */
function changes(scope: ts.Node, name: string): ts.Node[] {
  const found: ts.Node[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node) && node.text === name && isChanged(node)) found.push(node);
    ts.forEachChild(node, visit);
  };
  visit(scope);
  return found;
}

function isChanged(node: ts.Node): boolean {
  let { parent } = node;
  while (ts.isElementAccessExpression(parent) || ts.isNonNullExpression(parent)) ({ parent } = parent);
  if (ts.isPropertyAccessExpression(parent)) return MUTATORS.test(parent.name.text);
  return ts.isBinaryExpression(parent) && parent.operatorToken.kind === ts.SyntaxKind.EqualsToken;
}

/**
 * True if the node is in a function within `scope` that has a name or is a member of an object, and so may be called
 * later.
 */
function runsLater(node: ts.Node, scope: ts.Node): boolean {
  for (let at = node.parent; at !== scope; at = at.parent) {
    if (ts.isFunctionLike(at) && !ts.isCallExpression(at.parent)) return true;
  }
  return false;
}

/** The functions called `sizes`, in any syntax. */
function sizesIn(file: ts.SourceFile): ts.Node[] {
  const found: ts.Node[] = [];
  const visit = (node: ts.Node): void => {
    const named = ts.isMethodDeclaration(node) || ts.isPropertyAssignment(node) || ts.isVariableDeclaration(node);
    if (named && node.name.getText(file) === 'sizes') found.push(node);
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

function namesIn(nodes: readonly ts.Node[]): ReadonlySet<string> {
  const names = new Set<string>();
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node) || ts.isPrivateIdentifier(node)) names.add(node.text.replace(/^#/, ''));
    ts.forEachChild(node, visit);
  };
  nodes.forEach(visit);
  return names;
}
