import {
  formatCmdInstruction,
  formatDockerfile,
  type GeneratedDockerfile,
  type RecipeOptions,
  type StartCommand,
  USER,
} from "./generated-dockerfile.ts";
import { type JavaProject, readJavaProject } from "./java-project.ts";
import { readProcfileStart } from "./procfile.ts";
import type { SourceReader } from "./source-reader.ts";

const PORT = 8080;
/** Options for frameworks that do not read PORT: Spring Boot, Quarkus, Micronaut and Helidon. */
const PORT_OPTIONS = ["server.port", "quarkus.http.port", "micronaut.server.port"]
  .map((name) => `-D${name}=$PORT`)
  .join(" ");

/**
 * Creates the Dockerfile for Java and Kotlin with Maven or Gradle. Throws `invalid_request` if the program to run is
 * ambiguous.
 */
export async function createJavaDockerfile(
  reader: SourceReader,
  options: RecipeOptions,
): Promise<GeneratedDockerfile> {
  const project = await readJavaProject(reader);
  const { kind, jdk, tool, image } = project;
  const description = `${kind === "Java" ? "" : `${kind} on `}Java ${jdk} with ${tool}`;
  const start = (await readProcfileStart(reader)) ?? createStart(project);
  const text = formatDockerfile(description, project.decidingFiles, [
    `FROM ${options.baseImage ?? image} AS build`,
    "WORKDIR /src",
    ...(project.tool === "Maven" && !project.hasModules
      ? ["COPY pom.xml ./", "RUN mvn --batch-mode dependency:resolve dependency:resolve-plugins"]
      : []),
    "COPY . .",
    ...createBuildLines(project),
    "",
    `FROM ${options.baseImage ?? `eclipse-temurin:${jdk}-jre`}`,
    ...(project.layers === undefined
      ? [`COPY --from=build --chown=${USER} /out /app`]
      : project.layers.map((layer) => `COPY --from=build --chown=${USER} /out/${layer}/ /app/`)),
    "WORKDIR /app",
    `ENV PORT=${PORT} JAVA_TOOL_OPTIONS=-XX:MaxRAMPercentage=75`,
    `EXPOSE ${PORT}`,
    `USER ${USER}`,
    formatCmdInstruction(start),
  ]);
  return { description, decidingFiles: project.decidingFiles, port: PORT, text };
}

function createStart(project: JavaProject): StartCommand {
  if (project.kind === "Java" && project.tool === "Gradle")
    return {
      type: "shell",
      line: `JAVA_OPTS="$JAVA_OPTS ${PORT_OPTIONS}" exec sh bin/${project.name}`,
    };
  const target =
    project.kind === "Java" && project.mainClass !== undefined
      ? `-cp 'app.jar:lib/*' ${project.mainClass}`
      : "-jar app.jar";
  return { type: "shell", line: `exec java ${PORT_OPTIONS} ${target}` };
}

/** Creates the lines that build the program, and put all that it needs into /out. */
function createBuildLines(project: JavaProject): readonly string[] {
  const isMaven = project.tool === "Maven";
  const at = (path: string) => (project.folder === "" ? path : `${project.folder}/${path}`);
  const libs = at(isMaven ? "target" : "build/libs");
  const ofModule =
    isMaven && project.folder !== "" ? ` --projects ${project.folder} --also-make` : "";
  const build = isMaven
    ? `mvn --batch-mode -DskipTests${ofModule} package`
    : `gradle --no-daemon ${project.gradleTask}`;
  // A build can also leave jars with sources, without dependencies, or from before they were repackaged.
  const pickJar = `jar=$(ls ${libs}/*.jar | grep -v -e '-plain.jar$' -e '-sources.jar$' -e '-javadoc.jar$' -e '/original-' | head -n 1)`;
  if (project.kind === "Quarkus")
    return [
      `RUN ${build}`,
      `RUN cp -r ${at(isMaven ? "target" : "build")}/quarkus-app /out && mv /out/quarkus-run.jar /out/app.jar`,
    ];
  if (project.layers !== undefined)
    return [
      `RUN ${build}`,
      `RUN ${pickJar} && cp "$jar" /tmp/app.jar && java -Djarmode=tools -jar /tmp/app.jar extract --layers --destination /out`,
    ];
  if (project.kind === "Java" && !isMaven)
    return [`RUN ${build}`, `RUN cp -r ${at("build/install")}/${project.name} /out`];
  const needsLibraries = project.kind === "Java" && project.mainClass !== undefined;
  return [
    `RUN ${build}`,
    `RUN mkdir /out && ${pickJar} && cp "$jar" /out/app.jar`,
    ...(needsLibraries
      ? [
          `RUN mvn --batch-mode${ofModule} dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=/out/lib`,
        ]
      : []),
  ];
}
