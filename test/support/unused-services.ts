import { globSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const project = fileURLToPath(new URL('../../', import.meta.url));
const SERVICES = { file: 'src/operations/operation.ts', name: 'Services' };

/** A service that a function or an operation lists, but does not use. */
export interface UnusedService {
  /** Path and line of the function, or of `needs`. */
  at: string;
  service: string;
}

/** The files below `src/operations`, and `sources`: texts of further files by their path. */
export function operationsProgram(sources: Readonly<Record<string, string>> = {}): ts.Program {
  const { config } = ts.readConfigFile(`${project}tsconfig.json`, ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files: [] }, ts.sys, project);
  const host = ts.createCompilerHost(options);
  const added = new Map(Object.entries(sources).map(([path, text]) => [project + path, text]));
  const { readFile, fileExists } = host;
  host.readFile = (path) => added.get(path) ?? readFile(path);
  host.fileExists = (path) => added.has(path) || fileExists(path);
  const files = globSync('src/operations/**/*.ts', { cwd: project }).map((path) => project + path);
  return ts.createProgram([...files, ...added.keys()], options, host);
}

/**
 * Services that operations list in `needs`, and that functions list in a parameter such as `Pick<Services, 'clock'>`,
 * but do not use. A function uses a service that it reads, or that a function requires to which it passes its services.
 */
export function unusedServices(program: ts.Program, path: RegExp): UnusedService[] {
  const search = new Search(program.getTypeChecker());
  return program
    .getSourceFiles()
    .filter(({ fileName }) => path.test(relative(project, fileName)))
    .flatMap((file) => search.unusedIn(file));
}

class Search {
  readonly #checker: ts.TypeChecker;

  constructor(checker: ts.TypeChecker) {
    this.#checker = checker;
  }

  unusedIn(file: ts.SourceFile): UnusedService[] {
    const found: UnusedService[] = [];
    const report = (node: ts.Node, listed: Iterable<string>, used: ReadonlySet<string>) => {
      const { line } = file.getLineAndCharacterOfPosition(node.getStart());
      const at = `${relative(project, file.fileName)}:${line + 1}`;
      for (const service of listed) if (!used.has(service)) found.push({ at, service });
    };
    const visit = (node: ts.Node): void => {
      if (ts.isObjectLiteralExpression(node)) {
        const needs = needsOf(node);
        if (needs !== null) report(needs, textsOf(needs), this.#usedByOperation(node));
      } else if (ts.isParameter(node) && node.type !== undefined && hasBody(node.parent)) {
        const listed = this.#servicesOf(this.#checker.getTypeAtLocation(node));
        if (listed !== null) report(node, listed, this.#usedThrough(node));
      }
      ts.forEachChild(node, visit);
    };
    visit(file);
    return found;
  }

  /** The services that `run` and `policy` use. */
  #usedByOperation(operation: ts.ObjectLiteralExpression): Set<string> {
    const used = new Set<string>();
    for (const member of operation.properties) {
      const name = member.name?.getText();
      if (name !== 'run' && name !== 'policy') continue;
      const code = ts.isPropertyAssignment(member) ? member.initializer : member;
      for (const service of this.#usedByFunction(code)) used.add(service);
    }
    return used;
  }

  #usedByFunction(code: ts.Node): Iterable<string> {
    if (ts.isMethodDeclaration(code) || ts.isArrowFunction(code) || ts.isFunctionExpression(code)) {
      const [services] = code.parameters;
      return services === undefined ? [] : this.#usedThrough(services);
    }
    const named = ts.isShorthandPropertyAssignment(code) ? code.name : code;
    const [signature] = this.#checker.getTypeAtLocation(named).getCallSignatures();
    const services = signature?.parameters[0];
    return services === undefined ? [] : membersOf(this.#checker.getTypeOfSymbol(services));
  }

  /** The members that code reads of a parameter or variable, and those that the code to which it is passed requires. */
  #usedThrough({ name }: ts.ParameterDeclaration | ts.VariableDeclaration): Set<string> {
    const used = new Set<string>();
    if (ts.isArrayBindingPattern(name)) return used;
    if (ts.isObjectBindingPattern(name)) {
      for (const { dotDotDotToken, propertyName, name: local } of name.elements) {
        if (dotDotDotToken === undefined) used.add((propertyName ?? local).getText());
        else throw new Error(`${name.getText()}: list the services instead of the rest`);
      }
      return used;
    }
    const symbol = this.#checker.getSymbolAtLocation(name);
    const visit = (node: ts.Node): void => {
      if (ts.isIdentifier(node) && node !== name && this.#symbolOf(node) === symbol) {
        for (const service of this.#usedAt(node)) used.add(service);
      }
      ts.forEachChild(node, visit);
    };
    visit(ts.findAncestor(name, ts.isFunctionLike) ?? name.getSourceFile());
    return used;
  }

  /** The symbol of the value; for `{ services }`, of the variable, not of the member. */
  #symbolOf(node: ts.Identifier): ts.Symbol | undefined {
    return ts.isShorthandPropertyAssignment(node.parent)
      ? this.#checker.getShorthandAssignmentValueSymbol(node.parent)
      : this.#checker.getSymbolAtLocation(node);
  }

  #usedAt(services: ts.Identifier): Iterable<string> {
    const { parent } = services;
    if (ts.isPropertyAccessExpression(parent)) return [parent.name.text];
    if (ts.isVariableDeclaration(parent) && parent.initializer === services) return this.#usedThrough(parent);
    // By a name that is known at run time only.
    if (ts.isElementAccessExpression(parent)) return membersOf(this.#checker.getTypeAtLocation(services));
    const object = ts.isSpreadAssignment(parent) ? parent.parent : null;
    if (object !== null && ts.isVariableDeclaration(object.parent)) return this.#usedThrough(object.parent);
    const required = this.#checker.getContextualType(object ?? services);
    return membersOf(required ?? this.#checker.getTypeAtLocation(services));
  }

  /** Names of the members, if the type has members of `Services` only; otherwise null. */
  #servicesOf(type: ts.Type): string[] | null {
    const members = type.getProperties();
    const areServices = members.every((member) =>
      member.declarations?.some(
        ({ parent }) =>
          ts.isInterfaceDeclaration(parent) &&
          parent.name.text === SERVICES.name &&
          parent.getSourceFile().fileName === project + SERVICES.file,
      ),
    );
    return areServices && members.length > 0 ? members.map(({ name }) => name) : null;
  }
}

const membersOf = (type: ts.Type): string[] => type.getProperties().map(({ name }) => name);

const hasBody = (node: ts.SignatureDeclaration): boolean => 'body' in node && node.body !== undefined;

function needsOf(node: ts.ObjectLiteralExpression): ts.ArrayLiteralExpression | null {
  for (const member of node.properties) {
    if (!ts.isPropertyAssignment(member) || member.name.getText() !== 'needs') continue;
    if (ts.isArrayLiteralExpression(member.initializer)) return member.initializer;
  }
  return null;
}

const textsOf = ({ elements }: ts.ArrayLiteralExpression): string[] =>
  elements.filter(ts.isStringLiteral).map(({ text }) => text);
