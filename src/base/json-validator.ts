import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";

/**
 * Validates values by one of Berth's own schemas (JSON Schema, draft 07). The schema is compiled when the first value
 * is validated, because a process uses few of its schemas. Schemas are not validated against the meta-schema, which
 * would take longer to compile than any of these schemas.
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

  /**
   * The errors of the value that was validated last. Contains only the first error unless the option `allErrors` is
   * set.
   */
  get errors(): readonly ErrorObject[] {
    return this.#validate?.errors ?? [];
  }

  #compile(): ValidateFunction<Value> {
    const ajv = new Ajv({ allErrors: this.#allErrors, meta: false, validateSchema: false });
    // The copy through JSON drops the markers that TypeBox keeps on schemas, which a strict Ajv refuses.
    const plain: object = JSON.parse(JSON.stringify(this.#schema));
    return ajv.compile<Value>(plain);
  }
}
