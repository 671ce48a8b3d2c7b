// A table's cells, by the kind of their column. As a component it keeps each element when rows change, and with it the
// keyboard's focus, what is unfolded, and what is selected; a slot's template would make all of them anew.
// Vue escapes texts in double braces and values of attributes, so that they are never markup.
export default {
  props: { columns: Array },
  template: `
    <q-table ref="qRef" :columns="columns">
      <template v-slot:body-cell="cell">
        <q-td :props="cell" :data-title="cell.col.label" :class="{ 'pier-changes': cell.col.shows === 'changes' }">
          <template v-if="!cell.value"></template>
          <button v-else-if="cell.col.shows === 'opening'" type="button" class="pier-link-button"
            :aria-label="cell.value.said" :data-attempt="cell.row.key">{{ cell.value.text }}</button>
          <span v-else-if="cell.col.shows === 'deeds'" class="pier-deeds">
            <button v-for="deed in cell.value.deeds" :key="deed.name" type="button" class="pier-button"
              :aria-label="deed.said" :data-deed="deed.name" :data-row="cell.row.key">{{ deed.text }}</button>
          </span>
          <span v-else-if="cell.col.shows === 'phases'" class="pier-phases" role="img"
            :aria-label="cell.value.said" :title="cell.value.said">
            <i v-for="part in cell.value.parts" :class="'pier-phase-' + part.name" :style="{ flexGrow: part.share }"></i>
          </span>
          <template v-else-if="cell.col.shows === 'changes'">
            <component :is="cell.value.fold ? 'details' : 'div'" v-if="cell.value.fields.length">
              <summary v-if="cell.value.fold">{{ cell.value.fold }}</summary>
              <div v-for="field in cell.value.fields" :key="field.name">
                <b class="pier-bidi">{{ field.name }}</b>
                <template v-if="field.before !== null"
                  >{{ " " }}<del class="pier-bidi">{{ field.before }}</del>{{ " →" }}</template>
                <template v-if="field.after !== null">{{ " " }}<ins class="pier-bidi">{{ field.after }}</ins></template>
              </div>
            </component>
          </template>
          <a v-else-if="cell.value.href" :href="cell.value.href" :title="cell.value.title" :class="cell.value.classes"
            >{{ cell.value.text }}</a>
          <time v-else-if="cell.value.time" :datetime="cell.value.time" :title="cell.value.title"
            :class="cell.value.classes">{{ cell.value.text }}</time>
          <span v-else :title="cell.value.title" :class="cell.value.classes">
            <i v-if="cell.value.icon" class="q-icon material-icons" aria-hidden="true">{{ cell.value.icon }}</i>
            {{ cell.value.text }}
          </span>
        </q-td>
      </template>
    </q-table>
  `,
};
