import { QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Router } from 'wouter';
import { makeQueries } from './api/queries.ts';
import { CONSOLE } from './base.ts';
import { SessionGate } from './session.tsx';
import { Frame } from './shell/frame.tsx';
import { wearKept } from './shell/theme.tsx';
import { takeFirstClicks } from './ui/double-click.ts';
import './style.css';

wearKept();
takeFirstClicks();
const queries = makeQueries();

createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <Router base={CONSOLE}>
        <SessionGate>
          <Frame />
        </SessionGate>
      </Router>
    </QueryClientProvider>
  </StrictMode>,
);
