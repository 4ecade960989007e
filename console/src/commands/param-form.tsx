// Imported by file: the package's entry point loads a validator that compiles code, which the Content-Security-Policy forbids.
import Form from '@rjsf/core/lib/components/Form.js';
import { useRef, useState } from 'react';
import type { JsonObject } from '../../../src/domain/values.ts';
import type { DeviceRecord } from '../devices/device-name.tsx';
import { type CapabilityRecord, paramNames } from '../devices/manifest.tsx';
import { validator } from '../schema/validator.ts';
import { Note } from '../ui/feedback.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { initialParams } from './form-schema.ts';
import { useParamSchema } from './use-param-schema.ts';
import './panel.css';

interface ParamFormProps {
  capability: CapabilityRecord;
  device: DeviceRecord;
  busy: boolean;
  send(params: JsonObject, preview: boolean): void;
  /** For a form in a dialog. */
  onCancel?: () => void;
}

/** Form built from the capability's JSON Schema; the service validates the parameters again. */
export function ParamForm({ capability, device, busy, send, onCancel }: ParamFormProps) {
  const { schema, ui, releases } = useParamSchema(capability, device);
  // Initialised from the reported state; new reports do not overwrite the user's input.
  const [params, setParams] = useState<JsonObject>(() => initialParams(capability, device.state));
  const isPreview = useRef(false);
  const needsParams = paramNames(capability).length > 0;
  const verb = sentenceCase(capability.action);
  const buttons = (
    <div className="actions">
      {onCancel !== undefined && (
        <button type="button" className="button" onClick={onCancel}>
          Cancel
        </button>
      )}
      {capability.safetyClass !== 'CRITICAL' && (
        <button
          type={needsParams ? 'submit' : 'button'}
          className="button"
          disabled={busy}
          onClick={() => {
            isPreview.current = true;
            if (!needsParams) send({}, true);
          }}
        >
          Preview
        </button>
      )}
      <button
        type={needsParams ? 'submit' : 'button'}
        className="button primary"
        disabled={busy}
        onClick={() => {
          isPreview.current = false;
          if (!needsParams) send({}, false);
        }}
      >
        {busy ? 'Sending …' : capability.safetyClass === 'CRITICAL' ? `${verb} …` : verb}
      </button>
    </div>
  );
  if (!needsParams) return buttons;
  return (
    <>
      {releases !== null && releases.length === 0 && (
        <Note tone="info">No firmware is released for this device type.</Note>
      )}
      <Form
        className="param-form"
        schema={schema}
        uiSchema={ui}
        validator={validator}
        formData={params}
        idPrefix="param"
        showErrorList={false}
        noHtml5Validate
        focusOnFirstError
        onChange={({ formData }) => setParams(formData as JsonObject)}
        onError={() => {}}
        onSubmit={({ formData }) => send((formData ?? {}) as JsonObject, isPreview.current)}
      >
        {buttons}
      </Form>
    </>
  );
}
