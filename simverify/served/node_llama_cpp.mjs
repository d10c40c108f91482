// Answers questions, a line of JSON each, with node-llama-cpp of the folder that it runs in.
//
//     node node_llama_cpp.mjs TARGET.gguf [DRAFT.gguf | lookup] GAMMA
import {createRequire} from "node:module";
import {createInterface} from "node:readline";
import {pathToFileURL} from "node:url";

const {resolve} = createRequire(pathToFileURL(`${process.cwd()}/`));
const {DraftSequenceTokenPredictor, InputLookupTokenPredictor, getLlama} = await import(
    pathToFileURL(resolve("node-llama-cpp"))
);
const [target, drafts, gamma] = process.argv.slice(2);
const llama = await getLlama({gpu: false, build: "never", logLevel: "error"});

async function sequence(path, predictor) {
    const model = await llama.loadModel({modelPath: path});
    const context = await model.createContext({
        contextSize: 512, threads: 1, experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32"
    });
    return context.getSequence({tokenPredictor: predictor});
}

let predictor;
const count = Number(gamma);
if (drafts === "lookup")
    predictor = new InputLookupTokenPredictor({predictionLength: {min: 1, max: count}});
else if (drafts !== "none")
    predictor = new DraftSequenceTokenPredictor(
        await sequence(drafts), {minTokens: 1, maxTokens: count, minConfidence: 0}
    );
const answers = await sequence(target, predictor);
console.log(JSON.stringify({ready: true}));

for await (const line of createInterface({input: process.stdin})) {
    const asked = JSON.parse(line);
    const options = {
        temperature: asked.temperature, topK: asked.top_k, topP: asked.top_p, minP: 0,
        yieldEogToken: true
    };
    if (asked.seed !== null)
        options.seed = asked.seed;
    await answers.clearHistory();
    // Otherwise it finds nothing to draft.
    predictor?.updateInputTokens?.(asked.prompt);
    const tokens = [];
    for await (const token of answers.evaluate(asked.prompt, options)) {
        tokens.push(token);
        if (tokens.length === asked.max_tokens || answers.model.isEogToken(token))
            break;
    }
    console.log(JSON.stringify(tokens));
}
process.exit(0);
