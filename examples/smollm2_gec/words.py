"""The words that errors are made of: common nouns, verbs, adjectives and function words.

Only words whose part of speech is hardly in doubt are listed; a generator that does not know a word
leaves it alone. Adjectives are needed to look past them ("a very good teacher").
"""

from __future__ import annotations


def listed(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


COUNT_NOUNS = listed(
    """
    accident account activity actor adult adventure advertisement age airport animal answer
    apartment apple area argument arm artist aspect author award baby bag bank basket bed
    benefit bicycle bill bird boat body book bottle box boy bridge brother building bus business
    cake camera camp candidate car card career case cat center century chair challenge chance
    child church citizen city class classroom club coat college community company computer
    concept concert condition consumer corner country couple course cow crime crowd culture cup
    customer danger daughter day decade decision desk detail dictionary difference difficulty
    discovery disease doctor dog dollar door dream driver duty economy effort egg employee
    employer engine engineer enemy event exam example exercise expert eye face fact factor
    factory family farm farmer father feature festival field film finger fish flower forest
    friend game garden gene generation gift girl goal government grandfather grandmother group
    guest guide habit hand hat head hero hobby holiday home hospital hotel hour house husband
    idea illness individual industry institution interest invention island issue job journey
    judge key kid king kitchen lake language law lawyer leader leaf lesson letter library life
    line lion list local magazine machine man manager map market meal meeting member memory
    message method mile mind minister minute mistake moment month mother mountain mouse movie
    museum nation neighbor nephew network newspaper night nurse object obstacle occasion opinion
    opportunity option owner page painting parent part party passenger patient people person
    phone photo piece place plan plant player poem point politician pool practice president
    price principle prize problem process product professor program project quality question
    reader reason relationship relative resource restaurant result risk river road robot role
    room rule sailor salary school scientist sea season secret sentence shirt shoe shop sister
    situation skill society soldier solution son song source speaker species specialist star
    state station step stone store story stranger street student study style subject suggestion
    supermarket system table talent task teacher team technique teenager telephone theater thing
    thought threat ticket tool topic tourist town tradition train traveler tree trip truth uncle
    unit university vacation vehicle version village visitor voice wall war watch way weapon
    week wife window winner woman word worker writer year youth
    """
)
MASS_NOUNS = listed(
    """
    advice air anger behavior bread clothing confidence courage damage education electricity
    energy entertainment equipment evidence food freedom fun furniture gold happiness health
    help homework housework information intelligence justice knowledge luck luggage milk money
    music nature news oil patience peace pollution poverty progress rain research respect rice
    safety scenery smoke snow software stress success sugar technology traffic transportation
    violence water wealth weather wisdom work
    """
)
# What people put in the plural although it has none.
WRONGLY_COUNTED = listed(
    """
    advice clothing education energy equipment entertainment furniture health homework
    information knowledge luggage money pollution progress research software stress traffic
    transportation
    """
)
IRREGULAR_PLURALS = {
    "child": "children",
    "fish": "fish",
    "leaf": "leaves",
    "life": "lives",
    "man": "men",
    "mouse": "mice",
    "people": "people",
    "person": "people",
    "species": "species",
    "wife": "wives",
    "woman": "women",
    "hero": "heroes",
}
REGULAR_VERBS = listed(
    """
    accept achieve add admire advertise affect agree allow answer appear apply arrive ask attend
    avoid belong call carry cause change check choose clean collect compare complain complete
    concentrate connect consider consist continue cook cost count create cry damage dance decide
    decrease depend describe destroy develop die disagree discover discuss earn encourage enjoy
    enter exist expect explain explore express fail follow force gather happen hate help hope
    imagine improve include increase influence inform introduce invent invite involve join jump
    learn like listen live look love maintain manage miss move need notice obey offer open own
    participate pass perform persuade play prefer prepare prevent produce promise protect prove
    provide raise reach realize receive recommend reduce remain remember remind require respect
    return save seem serve share smile solve spread start stay stop study succeed suffer suggest
    support talk thank travel treat try use visit wait walk want waste watch wish worry
    """
)
IRREGULAR_VERBS = {
    "become": ("became", "become"),
    "begin": ("began", "begun"),
    "break": ("broke", "broken"),
    "bring": ("brought", "brought"),
    "build": ("built", "built"),
    "buy": ("bought", "bought"),
    "catch": ("caught", "caught"),
    "choose": ("chose", "chosen"),
    "come": ("came", "come"),
    "cost": ("cost", "cost"),
    "do": ("did", "done"),
    "draw": ("drew", "drawn"),
    "drink": ("drank", "drunk"),
    "drive": ("drove", "driven"),
    "eat": ("ate", "eaten"),
    "fall": ("fell", "fallen"),
    "feel": ("felt", "felt"),
    "fight": ("fought", "fought"),
    "find": ("found", "found"),
    "fly": ("flew", "flown"),
    "forget": ("forgot", "forgotten"),
    "get": ("got", "gotten"),
    "give": ("gave", "given"),
    "go": ("went", "gone"),
    "grow": ("grew", "grown"),
    "have": ("had", "had"),
    "hear": ("heard", "heard"),
    "hold": ("held", "held"),
    "keep": ("kept", "kept"),
    "know": ("knew", "known"),
    "lead": ("led", "led"),
    "leave": ("left", "left"),
    "lose": ("lost", "lost"),
    "make": ("made", "made"),
    "mean": ("meant", "meant"),
    "meet": ("met", "met"),
    "pay": ("paid", "paid"),
    "ride": ("rode", "ridden"),
    "rise": ("rose", "risen"),
    "run": ("ran", "run"),
    "say": ("said", "said"),
    "see": ("saw", "seen"),
    "sell": ("sold", "sold"),
    "send": ("sent", "sent"),
    "show": ("showed", "shown"),
    "sing": ("sang", "sung"),
    "sit": ("sat", "sat"),
    "sleep": ("slept", "slept"),
    "speak": ("spoke", "spoken"),
    "spend": ("spent", "spent"),
    "spread": ("spread", "spread"),
    "stand": ("stood", "stood"),
    "swim": ("swam", "swum"),
    "take": ("took", "taken"),
    "teach": ("taught", "taught"),
    "tell": ("told", "told"),
    "think": ("thought", "thought"),
    "understand": ("understood", "understood"),
    "wear": ("wore", "worn"),
    "win": ("won", "won"),
    "write": ("wrote", "written"),
}
ADJECTIVES = listed(
    """
    able active amazing angry available bad beautiful best better big bigger boring bright busy
    cheap clean clear clever cold comfortable common complex convenient correct creative
    cultural curious daily dangerous dark deep delicious different difficult dirty easy economic
    effective empty enough entire essential exciting expensive famous fast favorite final
    financial foreign free fresh friendly full general global good great happy hard harmful
    healthy heavy helpful high historical honest hot huge human ideal important impossible
    independent interesting large larger last late lazy little local lonely long lucky main
    major many modern modest natural necessary negative new nice normal obvious old older open
    ordinary original other own particular past peaceful perfect personal physical poor popular
    positive possible powerful practical pretty private professional proud public quick quiet
    real recent responsible rich right sad safe same serious several sharp short significant
    similar simple single small social special specific strange strong stupid successful sudden
    suitable sweet tall terrible tired traditional true typical unique usual useful valuable
    various warm whole wide wonderful wrong young younger
    """
)
"""Words that may stand between a determiner and its noun."""
ADVERBS = listed("very really quite so too more most extremely less rather")
FREQUENCY = listed("always usually often sometimes never also still already")
DETERMINERS = listed(
    """
    a an the this that these those my your his her its our their each every another some any no
    all both either neither what which whose one two three four five six seven eight nine ten
    many few several most much enough more less such 's
    """
)
SINGULAR_ONLY = listed("a an this that each every another one either neither")
PLURAL_ONLY = listed(
    "these those many few several both two three four five six seven eight nine ten various"
)
MODALS = listed("can could will would shall should may might must")
PREPOSITIONS = listed(
    "in on at of to for with from by about into during after before between through"
)
INTRODUCTIONS = listed(
    """
    however therefore moreover furthermore finally firstly secondly nowadays first second third
    additionally unfortunately fortunately instead also then sometimes recently today overall
    consequently thus meanwhile besides usually
    """
)
