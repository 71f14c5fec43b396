import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";

/**
 * What a value has to look like, by a schema of Berth's own (JSON Schema, draft 07). It is compiled with the first
 * value, since a process meets few of the shapes that it knows, and not held against the schema of schemas, which
 * takes longer to compile than any of them.
 */
export class LazyValidator<Value> {
  readonly #schema: object;
  readonly #allErrors: boolean;
  #validate: ValidateFunction<Value> | undefined;

  constructor(schema: object, { allErrors = false } = {}) {
    this.#schema = schema;
    this.#allErrors = allErrors;
  }

  isValid(value: unknown): value is Value {
    this.#validate ??= this.#compile();
    return this.#validate(value);
  }

  /** What was wrong with the last value; the first fault only, unless all are asked for. */
  get errors(): readonly ErrorObject[] {
    return this.#validate?.errors ?? [];
  }

  #compile(): ValidateFunction<Value> {
    const ajv = new Ajv({ allErrors: this.#allErrors, meta: false, validateSchema: false });
    // Through JSON: TypeBox keeps marks of its own on schemas.
    const plain: object = JSON.parse(JSON.stringify(this.#schema));
    return ajv.compile<Value>(plain);
  }
}
