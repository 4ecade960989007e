import { GraphiQL } from 'graphiql';
import { useMemo, useState } from 'react';
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
  return (
    <>
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

createRoot(document.getElementById('content') as HTMLElement).render(<Explorer />);
