// Imported by file, as in param-form.tsx.
import Form from '@rjsf/core/lib/components/Form.js';
import { useEffect, useId, useRef } from 'react';
import type { JsonObject } from '../../../src/domain/values.ts';
import type { DeviceRecord } from '../devices/device-name.tsx';
import type { CapabilityRecord } from '../devices/manifest.tsx';
import { validator } from '../schema/validator.ts';
import { useParamSchema } from './use-param-schema.ts';
import './panel.css';

/** Functions that show the errors of a part of a form and return whether it has none. */
export type FormChecks = Set<() => boolean>;

interface ParamFieldsProps {
  capability: CapabilityRecord;
  device: Pick<DeviceRecord, 'device_type'>;
  params: JsonObject;
  /** Parameters can be left open. */
  isOpen?: boolean;
  /** The fields add their check here. */
  checks: FormChecks;
  onChange(params: JsonObject): void;
}

/** Fields for the parameters of an action, as a part of another form. */
export function ParamFields({ capability, device, params, isOpen = false, checks, onChange }: ParamFieldsProps) {
  const { schema, ui } = useParamSchema(capability, device, { isOpen });
  const form = useRef<Form>(null);
  const id = useId();
  useEffect(() => {
    const check = (): boolean => form.current?.validateForm() ?? true;
    checks.add(check);
    return () => {
      checks.delete(check);
    };
  }, [checks]);
  return (
    <Form
      ref={form}
      tagName="div"
      className="param-form"
      schema={schema}
      uiSchema={ui}
      validator={validator}
      formData={params}
      idPrefix={id}
      showErrorList={false}
      noHtml5Validate
      onChange={({ formData }) => onChange((formData ?? {}) as JsonObject)}
      onError={() => {}}
    >
      {/* Without a button of its own. */}
      <span hidden />
    </Form>
  );
}
