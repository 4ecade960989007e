/** Without inline scripts and styles: the Content-Security-Policy forbids them. */
export const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Twinkeep GraphQL</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/graphql/explorer.css">
</head>
<body>
<header class="bar"><strong>Twinkeep GraphQL</strong> <a href="/docs">REST API</a> <a href="/docs/events">Events</a></header>
<main>
<section aria-labelledby="request">
<h1 id="request">Request</h1>
<form id="request-form">
<label for="credential">Token or API key <span class="quiet">(not stored; if empty, the browser's session is used)</span></label>
<input id="credential" type="password" autocomplete="off" spellcheck="false">
<label for="query">Query, mutation or subscription</label>
<textarea id="query" rows="16" spellcheck="false">query {
  me {
    user { email role }
  }
  devices(first: 10) {
    totalCount
    nodes { id name deviceType online home { homeName } }
    pageInfo { hasNextPage endCursor }
  }
}
</textarea>
<label for="variables">Variables <span class="quiet">(JSON)</span></label>
<textarea id="variables" rows="4" spellcheck="false">{}</textarea>
<p class="actions"><button type="submit" id="run">Run</button> <button type="button" id="stop" disabled>Stop</button>
<span class="quiet">Ctrl+Enter to run</span></p>
</form>
</section>
<section aria-labelledby="response">
<h2 id="response">Response</h2>
<p id="status" role="status" class="quiet">No request sent yet.</p>
<pre id="result" tabindex="0" aria-label="Response"></pre>
</section>
<section aria-labelledby="schema">
<h2 id="schema">Schema</h2>
<p><button type="button" id="load">Show schema</button></p>
<label for="find">Search</label>
<input id="find" type="search" autocomplete="off" spellcheck="false" placeholder="Device, commandDevice, …">
<div id="types"></div>
</section>
</main>
<script src="/graphql/explorer.js"></script>
</body>
</html>
`;
