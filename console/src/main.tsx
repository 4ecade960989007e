import { QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Router } from 'wouter';
import { makeQueryClient } from './api/queries.ts';
import { CONSOLE_PATH } from './base.ts';
import { SessionGate } from './session.tsx';
import { PageFrame } from './shell/frame.tsx';
import { applyStoredTheme } from './shell/theme.tsx';
import { ignoreSecondClicks } from './ui/double-click.ts';
import './style.css';

applyStoredTheme();
ignoreSecondClicks();
const queries = makeQueryClient();

createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <Router base={CONSOLE_PATH}>
        <SessionGate>
          <PageFrame />
        </SessionGate>
      </Router>
    </QueryClientProvider>
  </StrictMode>,
);
