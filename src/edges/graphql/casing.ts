// Wire names in GraphQL: members in camel case, types in Pascal case, enum values in constant case.

/** `device_id` and `device.control` as `deviceId` and `deviceControl`. */
export const camel = (name: string): string =>
  name.replace(/(?<=.)[._-]+([a-z0-9])/gi, (_, letter: string) => letter.toUpperCase());

export const pascal = (name: string): string => {
  const camelName = camel(name);
  return `${camelName.charAt(0).toUpperCase()}${camelName.slice(1)}`;
};

/** `hmac-sha256` as `HMAC_SHA256`. */
export const constantCase = (value: string): string => value.toUpperCase().replace(/[^A-Z0-9]+/g, '_');
