import { GraphiQL } from 'graphiql';
import { useEffect, useMemo, useState } from 'react';
import { createRoot } from 'react-dom/client';
import 'graphiql/style.css';
import './frame.css';
import './graphql.css';
import { makeFetcher } from './graphql-fetcher.ts';

const EXAMPLE = `query {
  me {
    user { email role }
  }
  devices(first: 10) {
    totalCount
    nodes { id name deviceType online home { homeName } }
    pageInfo { hasNextPage endCursor }
  }
}
`;

function Explorer() {
  const [credential, setCredential] = useState('');
  const current = useMemo(() => ({ credential: '' }), []);
  current.credential = credential.trim();
  const fetcher = useMemo(() => makeFetcher(() => current.credential), [current]);
  useEffect(() => {
    const content = document.getElementById('content') as HTMLElement;
    const changed = new MutationObserver(() => completeNames(content));
    changed.observe(content, { childList: true, subtree: true });
    return () => changed.disconnect();
  }, []);
  return (
    <>
      <h1 className="unseen">GraphQL explorer</h1>
      <form className="sign-in" onSubmit={(event) => event.preventDefault()}>
        <label htmlFor="credential">Token or API key</label>
        <input
          id="credential"
          type="password"
          autoComplete="off"
          spellCheck={false}
          aria-describedby="credential-hint"
          value={credential}
          onChange={({ target }) => setCredential(target.value)}
        />
        <span id="credential-hint">Not stored. If empty, the browser's session is used.</span>
      </form>
      <GraphiQL
        fetcher={fetcher}
        defaultQuery={EXAMPLE}
        shouldPersistHeaders={false}
        showPersistHeadersSettings={false}
      />
    </>
  );
}

const editors = {
  '.graphiql-query-editor': 'Query',
  '.graphiql-editor-tool .graphiql-editor:nth-child(1)': 'Variables',
  '.graphiql-editor-tool .graphiql-editor:nth-child(2)': 'Headers',
  '.result-window': 'Result',
};

/** Gives the editors names and the focus, which GraphiQL does not, and removes the role of a tab from what has buttons. */
function completeNames(content: HTMLElement): void {
  for (const [editor, name] of Object.entries(editors)) {
    content.querySelector(`${editor} textarea`)?.setAttribute('aria-label', name);
    content.querySelector(`${editor} .CodeMirror-scroll`)?.setAttribute('tabindex', '0');
  }
  for (const one of content.querySelectorAll('.graphiql-tabs, .graphiql-tab')) one.removeAttribute('role');
  for (const one of content.querySelectorAll('.graphiql-tab')) one.removeAttribute('aria-selected');
}

createRoot(document.getElementById('content') as HTMLElement).render(<Explorer />);
