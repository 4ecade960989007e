import ts from 'typescript';

/** Terms that were invented for this code base, with the standard ones. Plurals are separate. */
const REJECTED_TERMS: Readonly<Record<string, string>> = {
  ...entries(['asked', 'asker', 'askers'], 'request, requester'),
  ...entries(['companion', 'companions', 'newcomer', 'newcomers', 'stranger', 'strangers'], 'enlisted, new, unrelated'),
  ...entries(['culprit', 'culprits', 'venom'], 'poison event, unstorable'),
  ...entries(['census', 'roster', 'rosters'], 'stats, registry'),
  ...entries(['deed', 'deeds'], 'action'),
  ...entries(['ears', 'deafen', 'oncall'], 'subscription, unsubscribe'),
  ...entries(['guest', 'guests', 'house', 'houses'], 'connection, service'),
  ...entries(['hear', 'hears', 'heard', 'hearing', 'unheard'], 'receive, timeout'),
  ...entries(['insight', 'insights'], 'summary'),
  ...entries(['keeper', 'keepers', 'vault', 'vaults'], 'the name of the store or cache'),
  ...entries(['letter', 'letters', 'mail', 'mails', 'news'], 'envelope, message, invalidation'),
  ...entries(['mind', 'minds', 'thinker', 'thinkers'], 'planner'),
  ...entries(['patience'], 'timeout, deadline'),
  ...entries(['say', 'says', 'said', 'tell', 'tells', 'telling', 'teller', 'tellers', 'told'], 'send, report, message'),
  ...entries(['wish', 'wishes'], 'request, input'),
};

/** Identifiers with such a term that stay, by reason. */
const KEPT_NAMES: Readonly<Record<string, string>> = {
  ...entries(['letter', 'letters', 'LETTERS'], 'of an alphabet'),
  ...entries(['asked_by'], 'a column, and a member of a response'),
  ...entries(['askedBy'], 'the same column inside'),
  ...entries(['asked'], 'a member of a stored confirmation'),
  ...entries(['mind', 'unheard', 'patience'], 'a region, a state and a timer of a stored plan'),
  ...entries(['patienceMs'], 'an option of the device library'),
  ...entries(['heard_devices', 'heard_tenants', 'news_listeners', 'redis_rates_asked'], 'a label of a metric'),
  ...entries(['sidecar_parts_asked', 'sidecar_sets_told'], 'a label of a metric'),
};

function entries(terms: readonly string[], value: string): Record<string, string> {
  return Object.fromEntries(terms.map((term) => [term, value]));
}

/** `lateAck`, `LATE_ACK` and `#lateAck` consist of `late` and `ack`. */
const partsOf = (name: string): string[] =>
  name.split(/_|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/).map((term) => term.replace('#', '').toLowerCase());

/** The name of a declaration, also of a property, a parameter or a variable in a pattern. */
const isDeclared = (node: ts.Node): node is ts.Identifier | ts.PrivateIdentifier =>
  (ts.isIdentifier(node) || ts.isPrivateIdentifier(node)) &&
  !ts.isPropertyAccessExpression(node.parent) &&
  (node.parent as ts.NamedDeclaration).name === node;

/** Prints the names that a file declares with a rejected term. */
export function checkTerms(source: ts.SourceFile): void {
  const visit = (node: ts.Node): void => {
    if (isDeclared(node) && !Object.hasOwn(KEPT_NAMES, node.text)) {
      const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
      for (const term of partsOf(node.text)) {
        if (!Object.hasOwn(REJECTED_TERMS, term)) continue;
        console.log(`${source.fileName}:${line + 1} ${node.text}: use a standard term (${REJECTED_TERMS[term]})`);
        process.exitCode = 1;
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
}
