import { useId } from 'react';

interface NameFieldProps {
  label?: string;
  /** Name of the field in the form. */
  name?: string;
  value?: string;
  placeholder?: string;
  isRequired?: boolean;
}

/** Field for a name of 1 to 100 characters. */
export function NameField({ label = 'Name', name = 'name', value, placeholder, isRequired = true }: NameFieldProps) {
  const id = useId();
  return (
    <>
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        name={name}
        required={isRequired}
        maxLength={100}
        autoComplete="off"
        {...(value !== undefined && { defaultValue: value })}
        {...(placeholder !== undefined && { placeholder })}
      />
    </>
  );
}
