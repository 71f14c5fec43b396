/** A schema with valid and invalid documents, as in the JSON-Schema-Test-Suite. */
export interface SchemaCase {
  readonly name: string;
  readonly schema: unknown;
  readonly valid: readonly unknown[];
  readonly invalid: readonly unknown[];
  /**
   * Documents that the schema allows but Berth does not generate, such as objects with additional properties or with
   * their properties in another order.
   */
  readonly outside?: readonly unknown[];
}

/** Adds the property `then` to a schema, because an object literal with that property would be a thenable. */
export function consequence(schema: unknown): object {
  // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
  return { then: schema };
}
