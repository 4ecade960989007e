import { AsyncApiComponentWP as AsyncApi } from '@asyncapi/react-component';
import '@asyncapi/react-component/styles/default.min.css';
import { createRoot } from 'react-dom/client';
import { dereference, type JsonObject } from './dereference.ts';
import './frame.css';
import './events.css';

const document = (await (await fetch('/asyncapi.json')).json()) as JsonObject;
const config = { show: { sidebar: true, errors: false } };
const root = globalThis.document.getElementById('events') as HTMLElement;
createRoot(root).render(<AsyncApi schema={JSON.stringify(dereference(document))} config={config} />);
