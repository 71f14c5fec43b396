import fc from "fast-check";

/** A supported schema, and one valid document with its properties in the schema's order. */
export interface SchemaAndDocument {
  readonly schema: Readonly<Record<string, unknown>>;
  readonly document: unknown;
}

type PairArbitrary = fc.Arbitrary<SchemaAndDocument>;

const names = fc.uniqueArray(
  fc.oneof(
    fc.constantFrom("a", "b", "kind", "value", "x-1", "ü", 'q"'),
    fc.string({ maxLength: 4 }),
  ),
  { maxLength: 5 },
);

/** Generates pairs of a schema and a valid document, with at most `depth` levels of objects and arrays. */
export function arbitrarySchemaAndDocument(depth: number): PairArbitrary {
  const flat = [constants(), enums(), integers(), numbers(), strings(), booleans()];
  if (depth === 0) return fc.oneof(...flat);
  const inner = arbitrarySchemaAndDocument(depth - 1);
  return fc.oneof(
    ...flat,
    objects(inner),
    openObjects(inner),
    arrays(inner),
    tuples(inner),
    unions(inner),
    variants(inner),
    references(inner),
  );
}

const scalar = fc.oneof(
  fc.string({ maxLength: 6 }),
  fc.integer({ min: -1_000, max: 1_000 }),
  fc.boolean(),
  fc.constant(null),
);

function constants(): PairArbitrary {
  return scalar.map((value) => ({ schema: { const: value }, document: value }));
}

function enums(): PairArbitrary {
  return fc
    .uniqueArray(scalar, { minLength: 1, maxLength: 6 })
    .chain((values) =>
      fc.constantFrom(...values).map((value) => ({ schema: { enum: values }, document: value })),
    );
}

function booleans(): PairArbitrary {
  return fc.boolean().map((value) => ({ schema: { type: "boolean" }, document: value }));
}

function integers(): PairArbitrary {
  return fc
    .tuple(
      fc.integer({ min: -5_000, max: 5_000 }),
      fc.nat(300),
      fc.nat(300),
      fc.boolean(),
      fc.constantFrom(1, 2, 5, 7),
    )
    .map(([value, below, above, bounded, step]) => ({
      schema: {
        type: "integer",
        ...(bounded && { minimum: value * step - below, maximum: value * step + above }),
        ...(step > 1 && { multipleOf: step }),
      },
      document: value * step,
    }));
}

function numbers(): PairArbitrary {
  return fc
    .tuple(fc.integer({ min: -9_999, max: 9_999 }), fc.integer({ min: 1, max: 900 }))
    .map(([hundredths, width]) => ({
      schema: {
        type: "number",
        minimum: (hundredths - width) / 100,
        exclusiveMaximum: (hundredths + width) / 100,
      },
      document: hundredths / 100,
    }));
}

function strings(): PairArbitrary {
  const plain = fc.string({ unit: "grapheme", maxLength: 8 }).chain((text) => {
    const length = Array.from(text).length;
    return fc.tuple(fc.nat(length), fc.nat(5)).map(([less, more]) => ({
      schema: { type: "string", minLength: length - less, maxLength: length + more },
      document: text,
    }));
  });
  const patterned = fc
    .tuple(fc.constantFrom("a", "[0-9]", "(?:xy|z)", "\\w", "é"), fc.nat(3), fc.nat(3))
    .chain(([atom, min, more]) => {
      const pattern = `^${atom}{${min},${min + more}}$`;
      return fc
        .stringMatching(new RegExp(pattern, "u"))
        .map((text) => ({ schema: { type: "string", pattern }, document: text }));
    });
  const formatted = fc
    .date({ min: new Date("1900-01-01"), max: new Date("2100-01-01"), noInvalidDate: true })
    .map((date) => ({
      schema: { type: "string", format: "date-time" },
      document: date.toISOString(),
    }));
  return fc.oneof(plain, patterned, formatted);
}

function objects(inner: PairArbitrary): PairArbitrary {
  return names.chain((keys) =>
    fc
      .tuple(...keys.map((key) => fc.tuple(fc.constant(key), inner, fc.boolean(), fc.boolean())))
      .map((members) => ({
        schema: {
          type: "object",
          properties: Object.fromEntries(members.map(([key, { schema }]) => [key, schema])),
          required: members.filter(([, , required]) => required).map(([key]) => key),
          additionalProperties: false,
        },
        document: Object.fromEntries(
          members
            .filter(([, , required, present]) => required || present)
            .map(([key, { document }]) => [key, document]),
        ),
      }))
      // JavaScript puts names such as 1 before others, both in the schema's properties and in the document.
      .map(({ schema, document }) => ({ schema, document })),
  );
}

function openObjects(inner: PairArbitrary): PairArbitrary {
  return fc.tuple(inner, names).map(([{ schema, document }, keys]) => ({
    schema: { type: "object", additionalProperties: schema, maxProperties: keys.length + 1 },
    document: Object.fromEntries(keys.map((key) => [key, document])),
  }));
}

function arrays(inner: PairArbitrary): PairArbitrary {
  return fc
    .tuple(inner, fc.nat(4), fc.nat(2), fc.nat(2))
    .map(([{ schema, document }, count, less, more]) => ({
      schema: {
        type: "array",
        items: schema,
        minItems: Math.max(0, count - less),
        maxItems: count + more,
      },
      document: Array.from({ length: count }, () => document),
    }));
}

function tuples(inner: PairArbitrary): PairArbitrary {
  return fc.array(inner, { minLength: 1, maxLength: 3 }).map((pairs) => ({
    schema: { type: "array", prefixItems: pairs.map(({ schema }) => schema), items: false },
    document: pairs.map(({ document }) => document),
  }));
}

function unions(inner: PairArbitrary): PairArbitrary {
  return fc
    .tuple(inner, inner, fc.constantFrom("anyOf", "allOf"))
    .map(([one, other, keyword]) =>
      keyword === "anyOf"
        ? { schema: { anyOf: [one.schema, other.schema] }, document: other.document }
        : { schema: { allOf: [one.schema, { description: "nothing" }] }, document: one.document },
    );
}

/** Generates the variants of a discriminated union. */
function variants(inner: PairArbitrary): PairArbitrary {
  return fc.tuple(inner, inner).map(([one, other]) => ({
    schema: { oneOf: [branch("one", one.schema), branch("other", other.schema)] },
    document: { kind: "other", value: other.document },
  }));
}

function branch(kind: string, schema: unknown): object {
  return {
    type: "object",
    properties: { kind: { const: kind }, value: schema },
    required: ["kind", "value"],
  };
}

function references(inner: PairArbitrary): PairArbitrary {
  // A reference such as `#/$defs/it` is resolved within the nearest schema that has an `$id`. This schema gets an
  // `$id`, because it may be part of another schema.
  return fc.tuple(inner, fc.uuid()).map(([{ schema, document }, id]) => ({
    schema: { $id: `https://schema.invalid/${id}`, $ref: "#/$defs/it", $defs: { it: schema } },
    document,
  }));
}
